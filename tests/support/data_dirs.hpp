// data_dirs.hpp: where tests find their data. Golden vectors and the model zoo may be absent: tests
// that need them are skipped with a reason. The few files that must always be there are committed
// under tests/data.
#pragma once

#include <filesystem>
#include <string>
#include <vector>

namespace cortiq::test {

/// CORTIQ_GOLDEN_DIR, default <source>/../shared/golden. May not exist.
std::filesystem::path golden_dir();
/// CORTIQ_ZOO_DIR, default <source>/../shared/zoo. May not exist.
std::filesystem::path zoo_dir();
/// <source>/tests/data.
std::filesystem::path data_dir();
/// The built program, for end-to-end tests.
std::filesystem::path program();
/// Sub-folders of golden_dir() whose name begins with prefix, sorted; empty where the folder is
/// missing.
std::vector<std::filesystem::path> golden_cases(const std::string& prefix);
/// A fresh empty folder under the system's temporary folder, removed at exit of the test program.
std::filesystem::path scratch_dir(const std::string& name);

}  // namespace cortiq::test
