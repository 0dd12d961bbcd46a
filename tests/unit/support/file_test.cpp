#include "cortiq/support/file.hpp"

#include <gtest/gtest.h>
#include <sys/stat.h>

#include <cstring>
#include <fstream>
#include <thread>

#include "data_dirs.hpp"

namespace cortiq {
namespace {

namespace fs = std::filesystem;

std::string contents(const fs::path& path) {
  std::ifstream file(path, std::ios::binary);
  return {std::istreambuf_iterator<char>(file), std::istreambuf_iterator<char>()};
}

void put(const fs::path& path, std::string_view text) {
  std::ofstream(path, std::ios::binary) << text;
}

ByteSpan bytes_of(std::string_view text) { return std::as_bytes(std::span(text)); }

std::size_t entries(const fs::path& folder) {
  return static_cast<std::size_t>(
      std::distance(fs::directory_iterator(folder), fs::directory_iterator()));
}

template <typename Fn>
Error error_of(Fn&& fn) {
  try {
    fn();
  } catch (const Error& error) {
    return error;
  }
  ADD_FAILURE() << "no error";
  return Error(ErrorKind::kUsage, "");
}

class FileTest : public ::testing::Test {
 protected:
  fs::path folder_ = test::scratch_dir("support_file");
};

using MappedFileTest = FileTest;
using AtomicFileTest = FileTest;

TEST_F(MappedFileTest, ShowsTheBytesOfTheFile) {
  put(folder_ / "a", std::string("one\0two", 7));
  const MappedFile file(folder_ / "a");
  ASSERT_EQ(file.bytes().size(), 7U);
  EXPECT_EQ(std::memcmp(file.bytes().data(), "one\0two", 7), 0);
  EXPECT_EQ(file.path(), folder_ / "a");
}

TEST_F(MappedFileTest, A_fifo_without_a_writer_is_refused_at_once) {
  const fs::path fifo = folder_ / "fifo";
  ASSERT_EQ(::mkfifo(fifo.c_str(), 0600), 0);
  EXPECT_THROW(MappedFile{fifo}, Error);
}

TEST_F(MappedFileTest, EmptyFileIsAnEmptySpan) {
  put(folder_ / "empty", "");
  const MappedFile file(folder_ / "empty");
  EXPECT_TRUE(file.bytes().empty());
  file.release(file.bytes());
}

TEST_F(MappedFileTest, MissingFileIsAnIoErrorWithPathAndReason) {
  const Error error = error_of([&] { MappedFile(folder_ / "none"); });
  EXPECT_EQ(error.kind(), ErrorKind::kIo);
  EXPECT_NE(std::string(error.what()).find((folder_ / "none").string()), std::string::npos);
  EXPECT_NE(std::string(error.what()).find("No such file"), std::string::npos);
}

TEST_F(MappedFileTest, FolderIsAnInputError) {
  EXPECT_EQ(error_of([&] { MappedFile file(folder_); }).kind(), ErrorKind::kInput);
}

TEST_F(MappedFileTest, MovesWithoutLosingTheMap) {
  put(folder_ / "a", "first");
  put(folder_ / "b", "second");
  MappedFile a(folder_ / "a");
  MappedFile moved(std::move(a));
  EXPECT_EQ(moved.bytes().size(), 5U);
  moved = MappedFile(folder_ / "b");
  EXPECT_EQ(std::memcmp(moved.bytes().data(), "second", 6), 0);
}

TEST_F(MappedFileTest, ReleasedPagesCanBeReadAgain) {
  std::string text(40000, 'x');
  for (std::size_t i = 0; i < text.size(); ++i) text[i] = static_cast<char>('a' + i % 23);
  put(folder_ / "pages", text);
  const MappedFile file(folder_ / "pages");
  file.release(file.bytes().subspan(100, 30000));
  file.release(file.bytes());
  EXPECT_EQ(std::memcmp(file.bytes().data(), text.data(), text.size()), 0);
}

TEST_F(FileTest, ReadTextFileHonoursItsLimit) {
  put(folder_ / "text", "12345");
  EXPECT_EQ(read_text_file(folder_ / "text", 5), "12345");
  EXPECT_EQ(error_of([&] { (void)read_text_file(folder_ / "text", 4); }).kind(), ErrorKind::kInput);
  put(folder_ / "empty", "");
  EXPECT_EQ(read_text_file(folder_ / "empty"), "");
}

TEST_F(FileTest, IdentitySeesThroughLinks) {
  put(folder_ / "a", "same");
  put(folder_ / "b", "same");
  fs::create_symlink(folder_ / "a", folder_ / "symbolic");
  fs::create_hard_link(folder_ / "a", folder_ / "hard");
  const auto a = file_identity(folder_ / "a");
  ASSERT_TRUE(a.has_value());
  EXPECT_EQ(file_identity(folder_ / "symbolic"), a);
  EXPECT_EQ(file_identity(folder_ / "hard"), a);
  EXPECT_EQ(file_identity(folder_ / "." / "a"), a);
  EXPECT_NE(file_identity(folder_ / "b"), a);
  EXPECT_EQ(file_identity(folder_ / "none"), std::nullopt);
}

TEST_F(FileTest, OnlyRegularFilesAndNothingMayBeReplaced) {
  put(folder_ / "a", "data");
  fs::create_symlink(folder_ / "a", folder_ / "link");
  fs::create_symlink(folder_ / "gone", folder_ / "dangling");
  ASSERT_EQ(::mkfifo((folder_ / "fifo").c_str(), 0600), 0);
  check_replaceable(folder_ / "a");
  check_replaceable(folder_ / "none");
  for (const char* name : {"", "link", "dangling", "fifo"})
    EXPECT_EQ(error_of([&] { check_replaceable(folder_ / name); }).kind(), ErrorKind::kIo) << name;
  EXPECT_EQ(error_of([&] { write_text_file(folder_ / "fifo", "x"); }).kind(), ErrorKind::kIo);
}

TEST_F(FileTest, FreeSpaceIsKnownForAFileThatDoesNotExistYet) {
  EXPECT_TRUE(free_space_bytes(folder_ / "later").has_value());
  EXPECT_FALSE(free_space_bytes(folder_ / "no" / "such" / "folder").has_value());
}

TEST_F(FileTest, WriteTextFileReplacesTheWholeFile) {
  write_text_file(folder_ / "t", "a long first text");
  write_text_file(folder_ / "t", "short");
  EXPECT_EQ(contents(folder_ / "t"), "short");
  EXPECT_EQ(entries(folder_), 1U);
  EXPECT_EQ(error_of([&] { write_text_file(folder_ / "no" / "t", ""); }).kind(), ErrorKind::kIo);
}

TEST_F(AtomicFileTest, CommitMovesTheFileToItsName) {
  for (const auto naming : {AtomicFile::Naming::kPartial, AtomicFile::Naming::kUnique}) {
    put(folder_ / "out", "old");
    {
      AtomicFile file(folder_ / "out", naming);
      file.append(bytes_of("new "));
      file.append(bytes_of("text"));
      EXPECT_EQ(file.appended_bytes(), 8U);
      EXPECT_EQ(contents(folder_ / "out"), "old");
      file.commit();
      EXPECT_EQ(contents(folder_ / "out"), "new text");
    }
    EXPECT_EQ(contents(folder_ / "out"), "new text");
    EXPECT_EQ(entries(folder_), 1U);
  }
}

TEST_F(AtomicFileTest, RollbackRemovesTheTemporaryFile) {
  for (const auto naming : {AtomicFile::Naming::kPartial, AtomicFile::Naming::kUnique}) {
    {
      AtomicFile file(folder_ / "out", naming);
      file.append(bytes_of("half"));
      EXPECT_EQ(entries(folder_), 1U);
    }
    EXPECT_EQ(entries(folder_), 0U);
  }
}

TEST_F(AtomicFileTest, KeptPartialFileStaysAndIsEmptiedByTheNextWriter) {
  {
    AtomicFile file(folder_ / "out", AtomicFile::Naming::kPartial, "half");
    EXPECT_EQ(contents(folder_ / "out.partial"), "half");
    file.append(bytes_of("half of it"));
    file.keep_partial();
  }
  EXPECT_EQ(contents(folder_ / "out.partial"), "half of it");
  AtomicFile file(folder_ / "out", AtomicFile::Naming::kPartial, "half");
  file.append(bytes_of("another"));
  file.commit();
  EXPECT_EQ(contents(folder_ / "out"), "another");
}

TEST_F(AtomicFileTest, PartialFileOfSomebodyElseIsRefusedAndLeftAlone) {
  for (const std::string text : {"somebody's notes", "hal", "x", "Half of it"}) {
    std::ofstream(folder_ / "out.partial", std::ios::binary) << text;
    const Error error = error_of(
        [&] { AtomicFile file(folder_ / "out", AtomicFile::Naming::kPartial, "half"); });
    EXPECT_EQ(error.kind(), ErrorKind::kRefused);
    EXPECT_NE(std::string(error.what()).find("out.partial"), std::string::npos) << error.what();
    EXPECT_NE(std::string(error.what()).find("move or remove it"), std::string::npos);
    EXPECT_EQ(error_of([&] { AtomicFile::check_partial(folder_ / "out", "half"); }).kind(),
              ErrorKind::kRefused);
    EXPECT_EQ(contents(folder_ / "out.partial"), text);
  }
  std::ofstream(folder_ / "out.partial", std::ios::trunc).close();
  AtomicFile::check_partial(folder_ / "out", "half");  // an empty file holds nothing to lose
  const AtomicFile file(folder_ / "out", AtomicFile::Naming::kPartial, "half");
}

TEST_F(AtomicFileTest, KeptPartialFileIsContinuedByAWriterThatAsksForIt) {
  const Error absent =
      error_of([&] { AtomicFile file(folder_ / "out", AtomicFile::Naming::kKept); });
  EXPECT_EQ(absent.kind(), ErrorKind::kIo);
  {
    AtomicFile file(folder_ / "out", AtomicFile::Naming::kPartial);
    file.append(bytes_of("half of it"));
    file.sync();
    file.keep_partial();
  }
  AtomicFile file(folder_ / "out", AtomicFile::Naming::kKept);
  EXPECT_EQ(file.size(), 10U);
  file.append_behind(5);
  file.append(bytes_of("the rest"));
  file.commit();
  EXPECT_EQ(contents(folder_ / "out"), "half the rest");
}

TEST_F(AtomicFileTest, LockRefusesASecondWriterAndLeavesTheFirstAlone) {
  AtomicFile first(folder_ / "out", AtomicFile::Naming::kPartial);
  first.append(bytes_of("mine"));
  const Error error =
      error_of([&] { AtomicFile second(folder_ / "out", AtomicFile::Naming::kPartial); });
  EXPECT_EQ(error.kind(), ErrorKind::kIo);
  EXPECT_NE(std::string(error.what()).find("another process"), std::string::npos);
  first.commit();
  EXPECT_EQ(contents(folder_ / "out"), "mine");
}

TEST_F(AtomicFileTest, UniqueNamesLetSeveralWritersWork) {
  AtomicFile first(folder_ / "out", AtomicFile::Naming::kUnique);
  AtomicFile second(folder_ / "out", AtomicFile::Naming::kUnique);
  EXPECT_NE(first.temporary_path(), second.temporary_path());
  first.append(bytes_of("1"));
  second.append(bytes_of("2"));
  first.commit();
  second.commit();
  EXPECT_EQ(contents(folder_ / "out"), "2");
}

TEST_F(AtomicFileTest, ThreadsWriteDisjointRanges) {
  constexpr std::size_t kPieces = 8;
  constexpr std::size_t kSize = 5000;
  AtomicFile file(folder_ / "out", AtomicFile::Naming::kPartial);
  file.reserve(kPieces * kSize);
  std::vector<std::thread> threads;
  for (std::size_t t = 0; t < kPieces; ++t) {
    threads.emplace_back([&file, t] {
      const std::string piece(kSize, static_cast<char>('a' + t));
      file.write_at(t * kSize, bytes_of(piece));
    });
  }
  for (std::thread& thread : threads) thread.join();
  std::vector<std::byte> back(kSize);
  file.read_at(3 * kSize, back);
  EXPECT_EQ(back.front(), std::byte{'d'});
  EXPECT_EQ(back.back(), std::byte{'d'});
  file.commit();
  const std::string all = contents(folder_ / "out");
  ASSERT_EQ(all.size(), kPieces * kSize);
  for (std::size_t i = 0; i < all.size(); ++i) {
    ASSERT_EQ(all[i], static_cast<char>('a' + i / kSize)) << i;
  }
}

TEST_F(AtomicFileTest, ReadingBehindTheEndIsAnIoError) {
  AtomicFile file(folder_ / "out", AtomicFile::Naming::kPartial);
  file.append(bytes_of("abc"));
  std::vector<std::byte> back(4);
  EXPECT_EQ(error_of([&] { file.read_at(0, back); }).kind(), ErrorKind::kIo);
}

TEST_F(AtomicFileTest, RefusesAFolderAndAMissingFolder) {
  for (const auto naming : {AtomicFile::Naming::kPartial, AtomicFile::Naming::kUnique}) {
    EXPECT_EQ(error_of([&] { AtomicFile file(folder_, naming); }).kind(), ErrorKind::kIo);
    EXPECT_EQ(error_of([&] { AtomicFile file(folder_ / "no" / "out", naming); }).kind(),
              ErrorKind::kIo);
  }
}

TEST_F(AtomicFileTest, ReservingMoreThanTheDiskHoldsIsRefused) {
  AtomicFile file(folder_ / "out", AtomicFile::Naming::kPartial);
  EXPECT_EQ(error_of([&] { file.reserve(std::uint64_t{1} << 62); }).kind(), ErrorKind::kRefused);
}

}  // namespace
}  // namespace cortiq
