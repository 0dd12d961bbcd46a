// teacher_files.hpp: the files of a teacher data folder: manifest, hashes, prompts, and the records
// with their index, row by row (calibration.md section 3).
#pragma once

#include <cstdint>
#include <filesystem>
#include <map>
#include <nlohmann/json.hpp>
#include <optional>
#include <set>
#include <string>

#include "cortiq/calib/teacher.hpp"
#include "read_file.hpp"

namespace cortiq::calib::teacher {

using Json = nlohmann::json;

struct FileFacts {
  std::uint64_t bytes = 0;
  std::string sha256;
};
struct Manifest {
  std::map<std::string, FileFacts> files;  ///< of the five known files, those that it lists
  std::optional<std::uint64_t> records;
  std::optional<std::uint64_t> prompts;
  std::string input_format;
  TokenizerFacts tokenizer;  ///< that made the tokens, where it is named
};
/// Refuses other formats, versions and unfinished sets.
[[nodiscard]] Manifest read_manifest(const std::filesystem::path& folder);
/// See read_teacher. @param model  its tokenizer
void check_tokenizer(const std::filesystem::path& folder, const TokenizerFacts& teacher,
                     const TokenizerFacts& model, Log& log);
/// Sizes and sha256 of the files that the manifest lists. Other names in it are not followed.
void verify_files(const std::filesystem::path& folder, const Manifest& manifest);

/// Prompt id -> its split, from prompts.jsonl.
class Prompts {
 public:
  /// Every line: a unique id, a split, messages; as many as the manifest says.
  Prompts(const std::filesystem::path& folder, const Manifest& manifest);
  /// A record must belong to one of them, of the same split. @param where  of the record
  void use(const std::string& id, const std::string& split, const std::string& where);
  /// Every prompt must have been used.
  void check_all_used() const;

 private:
  std::filesystem::path path_;
  std::map<std::string, std::string> splits_;
  std::set<std::string> used_;
};

/// One row of records.jsonl and tokens.idx, checked against each other.
struct Record {
  std::string rid;
  std::string pid;
  std::string split;
  bool usable = false;
  std::uint64_t offset = 0;  ///< of its first token in tokens.bin
  std::uint64_t tokens = 0;
};
/// Checks that do not need other rows.
/// @param line   JSON of the record   @param entry  its 40 bytes of tokens.idx
/// @param where  file and line, for messages
[[nodiscard]] Record parse_record(std::string_view line, const std::byte* entry,
                                  std::uint64_t index, const std::string& where);

inline constexpr std::size_t kIndexEntryBytes = 40;
inline constexpr std::size_t kMaxLineBytes = std::size_t{16} << 20;

}  // namespace cortiq::calib::teacher
