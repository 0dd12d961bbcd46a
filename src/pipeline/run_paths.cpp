#include "run_paths.hpp"

#include <unistd.h>

#include <system_error>

#include "cortiq/support/error.hpp"
#include "cortiq/support/file.hpp"

namespace cortiq::pipeline {
namespace fs = std::filesystem;
namespace {

fs::path resolved(const fs::path& path) {
  std::error_code code;
  fs::path result = fs::weakly_canonical(fs::absolute(path), code);
  return code ? path : result;
}

}  // namespace

void RunPaths::reads(const fs::path& path, std::string_view what) {
  if (!path.empty()) add(path, path, what, false);
}

void RunPaths::reads(const std::vector<fs::path>& paths, std::string_view what) {
  for (const fs::path& path : paths) reads(path, what);
}

void RunPaths::writes(const fs::path& path, std::string_view what,
                      std::initializer_list<std::string_view> suffixes) {
  if (path.empty()) fail(ErrorKind::kUsage, "the {} has an empty path; give the path of a file", what);
  add(path, path, what, true);
  for (const std::string_view suffix : suffixes)
    add(path.string() + std::string(suffix), path, what, true);
}

void RunPaths::add(const fs::path& path, const fs::path& owner, std::string_view what, bool written) {
  names_.push_back({path, owner, std::string(what), written, resolved(path), file_identity(path)});
}

void RunPaths::writes_model(const fs::path& path) {
  writes(path, "output", {".partial", ".partial.journal"});
}

void RunPaths::writes_cache(const fs::path& path) {
  writes(path, "Hessian cache", {".partial", ".json"});
}

void RunPaths::check() const {
  for (std::size_t i = 0; i < names_.size(); ++i) {
    for (std::size_t j = 0; j < i; ++j) {
      const Name& a = names_[i];
      const Name& b = names_[j];
      if (!a.written && !b.written && a.what == b.what) continue;
      // Two outputs with hard links between them do no harm: each is replaced, none written into.
      const bool both = a.written && b.written;
      const bool same_file = a.file && a.file == b.file;
      if (a.resolved != b.resolved && (both || !same_file)) continue;
      refuse(a.written ? a : b, a.written ? b : a);
    }
  }
  for (const Name& name : names_) {
    if (name.written) check_replaceable(name.path);
  }
}

void RunPaths::refuse(const Name& written, const Name& other) {
  const std::string role =
      written.path == written.owner
          ? fmt::format("{}: is {} {}", written.path.string(),
                        written.written ? "to be the" : "the", written.what)
          : fmt::format("{}: is a name that the {} {} needs", written.path.string(), written.what,
                        written.owner.string());
  const std::string clash =
      other.path == other.owner
          ? fmt::format("is the {} {}", other.what, other.path.string())
          : fmt::format("belongs to the {} {}", other.what, other.owner.string());
  fail(ErrorKind::kUsage, "{}, and {}; choose different files", role, clash);
}

void check_spill_folder(const fs::path& folder) {
  std::error_code code;
  if (!fs::exists(folder, code)) {
    fail(ErrorKind::kIo, "--spill {}: this folder does not exist; create it first",
         folder.string());
  }
  if (!fs::is_directory(folder, code))
    fail(ErrorKind::kIo, "--spill {}: is no folder; give the path of one", folder.string());
  if (::access(folder.c_str(), W_OK | X_OK) != 0) {
    fail(ErrorKind::kIo, "--spill {}: no permission to write in this folder; choose another one",
         folder.string());
  }
}

}  // namespace cortiq::pipeline
