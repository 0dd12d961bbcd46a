#include "data_dirs.hpp"

#include <unistd.h>

#include <algorithm>
#include <cstdlib>

namespace cortiq::test {
namespace fs = std::filesystem;
namespace {

fs::path from_environment(const char* variable, const char* fallback) {
  if (const char* value = std::getenv(variable); value != nullptr && *value != '\0') return value;
  return fs::path(CORTIQ_SOURCE_DIR) / fallback;
}

/// Owns the folder below which scratch_dir makes its folders.
struct ScratchRoot {
  ScratchRoot() : path(fs::temp_directory_path() / ("cortiq-test-" + std::to_string(::getpid()))) {}
  ~ScratchRoot() {
    std::error_code ignored;
    fs::remove_all(path, ignored);
  }
  fs::path path;
};

}  // namespace

fs::path golden_dir() { return from_environment("CORTIQ_GOLDEN_DIR", "../shared/golden"); }
fs::path zoo_dir() { return from_environment("CORTIQ_ZOO_DIR", "../shared/zoo"); }
fs::path data_dir() { return fs::path(CORTIQ_SOURCE_DIR) / "tests/data"; }
fs::path program() { return from_environment("CORTIQ_PROGRAM", CORTIQ_BINARY); }

std::vector<fs::path> golden_cases(const std::string& prefix) {
  std::vector<fs::path> found;
  if (!fs::is_directory(golden_dir())) return found;
  for (const auto& entry : fs::directory_iterator(golden_dir())) {
    if (entry.is_directory() && entry.path().filename().string().rfind(prefix, 0) == 0) {
      found.push_back(entry.path());
    }
  }
  std::sort(found.begin(), found.end());
  return found;
}

fs::path scratch_dir(const std::string& name) {
  static const ScratchRoot root;
  const fs::path path = root.path / name;
  fs::remove_all(path);
  fs::create_directories(path);
  return path;
}

}  // namespace cortiq::test
