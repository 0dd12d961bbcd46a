// teacher.hpp: teacher data (`.tdata`, version 1): conversations of a teacher model, tokenized, one
// folder (calibration.md section 3). Read only. Each selected, usable record is cut into windows of
// its own. Damaged or inconsistent data is an Error{kInput} that names file and line.
#pragma once

#include <cstdint>
#include <filesystem>
#include <string>
#include <string_view>

#include "cortiq/model/windows.hpp"
#include "cortiq/support/log.hpp"

namespace cortiq::calib {

/// PATH.tdata[:train|val|test|all][=SHARE]: which records of which folder.
struct TeacherSelector {
  std::filesystem::path folder;
  std::string split = "train";  ///< train, val, test or all
  std::uint64_t share_numerator = 1;
  std::uint64_t share_denominator = 1;

  /// By a hash of the record's name, so it does not depend on other records.
  [[nodiscard]] bool keeps(std::string_view rid) const;
};
/// Whether a path names teacher data: its last component has ".tdata" at its end, or before ':' or
/// '='. (A text file below such a folder does not.)
[[nodiscard]] bool is_teacher_path(const std::filesystem::path& path);
/// Splits behind the last ".tdata". Share: decimal in (0, 1], at most 18 digits behind the point.
/// Throws Error{kUsage}.
[[nodiscard]] TeacherSelector parse_teacher_selector(std::string_view text);

/// Which tokenizer gave or understands token ids.
struct TokenizerFacts {
  std::int64_t size = 0;  ///< one more than the greatest id; 0 = unknown
  std::string sha256;     ///< of tokenizer.json, hex; empty = unknown
};

struct TeacherOptions {
  std::int64_t tokens = 0;     ///< wanted; 0 gives no windows
  std::int64_t window = 2048;  ///< tokens per window at most; below 2 counts as 2
  std::int64_t vocab = 0;      ///< ids must be below; 0 = not checked
  TokenizerFacts tokenizer = {};  ///< the model's; compared with the one that the manifest names
  bool verify = true;          ///< read and check all records and the hashes of all files
};
struct TeacherWindows {
  model::Windows windows;
  std::int64_t records = 0;  ///< that the windows come from
  std::string sha256;        ///< of the token ids in the windows, u32 little-endian
};

/// Existence and form of the folder's manifest.
void check_teacher_folder(const TeacherSelector& selector);
/// Windows in file order until `tokens` are reached (a last window of one token takes two). Without
/// `verify` reading ends there, and hashes of files are not compared. No usable record: Error{kInput}.
/// A tokenizer of another size: Error{kRefused}; of the same size and another hash: a warning, since
/// one tokenizer can be written in many ways.
[[nodiscard]] TeacherWindows read_teacher(const TeacherSelector& selector,
                                          const TeacherOptions& options, Log& log);

}  // namespace cortiq::calib
