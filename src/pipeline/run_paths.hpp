// run_paths.hpp: every name that a run reads or writes, temporary ones too, so that none of them is
// written over another.
#pragma once

#include <filesystem>
#include <initializer_list>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "cortiq/support/file.hpp"

namespace cortiq::pipeline {

class RunPaths {
 public:
  /// @param what  "input file"; an empty path is none
  void reads(const std::filesystem::path& path, std::string_view what);
  void reads(const std::vector<std::filesystem::path>& paths, std::string_view what);
  /// PATH, and PATH with each of the suffixes (".partial"), which belong to it.
  void writes(const std::filesystem::path& path, std::string_view what,
              std::initializer_list<std::string_view> suffixes = {});
  /// PATH, PATH.partial, PATH.partial.journal (a model); a cache has PATH.json instead of a journal.
  void writes_model(const std::filesystem::path& path);
  void writes_cache(const std::filesystem::path& path);

  /// Error{kUsage} if a name that is written is another one of the run: the same path, or, of an
  /// input, the same file by any link; or if one input is to be two things. Error{kIo} as check_replaceable() for every written name.
  void check() const;

 private:
  struct Name {
    std::filesystem::path path;
    std::filesystem::path owner;  ///< that it belongs to; itself if it is no side name
    std::string what;             ///< "output"
    bool written = false;
    std::filesystem::path resolved;    ///< without links and dots, where it can be told
    std::optional<FileIdentity> file;  ///< of what is there
  };
  void add(const std::filesystem::path& path, const std::filesystem::path& owner,
           std::string_view what, bool written);
  [[noreturn]] static void refuse(const Name& written, const Name& other);

  std::vector<Name> names_;
};

/// Error{kIo} unless this is a folder in which files can be made.
void check_spill_folder(const std::filesystem::path& folder);

}  // namespace cortiq::pipeline
