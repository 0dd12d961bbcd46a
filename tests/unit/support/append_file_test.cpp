#include "cortiq/support/append_file.hpp"

#include <gtest/gtest.h>

#include <fstream>
#include <iterator>

#include "cortiq/support/error.hpp"
#include "data_dirs.hpp"

namespace cortiq {
namespace {
namespace fs = std::filesystem;

std::string contents(const fs::path& path) {
  std::ifstream file(path, std::ios::binary);
  return {std::istreambuf_iterator<char>(file), {}};
}

ByteSpan bytes(const std::string& text) { return std::as_bytes(std::span(text)); }

TEST(AppendFile, what_was_appended_is_there_while_the_file_is_open) {
  const fs::path path = test::scratch_dir("append") / "log";
  AppendFile file(path);
  file.append(bytes("one"));
  file.append(bytes("two"));
  file.sync();
  EXPECT_EQ(contents(path), "onetwo");
}

TEST(AppendFile, a_new_file_is_empty_and_a_continued_one_is_cut) {
  const fs::path path = test::scratch_dir("append-cut") / "log";
  AppendFile(path).append(bytes("a whole line, a torn li"));
  {
    AppendFile file(path, 12);
    file.append(bytes(" more"));
  }
  EXPECT_EQ(contents(path), "a whole line more");
  const AppendFile file(path);
  EXPECT_EQ(contents(path), "");
}

TEST(AppendFile, links_and_absent_files_are_refused_with_the_path) {
  const fs::path folder = test::scratch_dir("append-bad");
  std::ofstream(folder / "victim") << "data";
  fs::create_symlink(folder / "victim", folder / "link");
  EXPECT_THROW(AppendFile(folder / "link"), Error);
  EXPECT_EQ(contents(folder / "victim"), "data");
  try {
    AppendFile(folder / "none", 0);
    FAIL();
  } catch (const Error& error) {
    EXPECT_EQ(error.kind(), ErrorKind::kIo);
    EXPECT_NE(std::string(error.what()).find("none"), std::string::npos);
  }
}

}  // namespace
}  // namespace cortiq
