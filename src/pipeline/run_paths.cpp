#include "run_paths.hpp"

#include <unistd.h>

#include <system_error>

#include "cortiq/support/error.hpp"
#include "cortiq/support/file.hpp"

namespace cortiq::pipeline {
namespace fs = std::filesystem;
namespace {

bool same_path(const fs::path& a, const fs::path& b) {
  std::error_code code;
  const fs::path first = fs::weakly_canonical(fs::absolute(a), code);
  if (code) return a == b;
  const fs::path second = fs::weakly_canonical(fs::absolute(b), code);
  return code ? a == b : first == second;
}

bool same_file(const fs::path& a, const fs::path& b) {
  const auto identity = file_identity(a);
  return identity && identity == file_identity(b);
}

}  // namespace

void RunPaths::reads(const fs::path& path, std::string_view what) {
  if (!path.empty()) names_.push_back({path, path, std::string(what), false});
}

void RunPaths::reads(const std::vector<fs::path>& paths, std::string_view what) {
  for (const fs::path& path : paths) reads(path, what);
}

void RunPaths::writes(const fs::path& path, std::string_view what,
                      std::initializer_list<std::string_view> suffixes) {
  if (path.empty()) fail(ErrorKind::kUsage, "the {} has an empty path; give the path of a file", what);
  names_.push_back({path, path, std::string(what), true});
  for (const std::string_view suffix : suffixes)
    names_.push_back({path.string() + std::string(suffix), path, std::string(what), true});
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
      if (!same_path(a.path, b.path) && (both || !same_file(a.path, b.path))) continue;
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
