// Sharded sets (cmf.md section 7).
#include <gtest/gtest.h>

#include "cortiq/cmf/reader.hpp"
#include "cortiq/cmf/summary.hpp"
#include "cortiq/cmf/verify.hpp"
#include "cortiq/support/error.hpp"
#include "data_dirs.hpp"
#include "raw_file.hpp"

namespace cortiq::cmf {
namespace {

namespace fs = std::filesystem;
using test::RawFile;

class ShardTest : public ::testing::Test {
 protected:
  void SetUp() override { folder_ = cortiq::test::scratch_dir("cmf_shards"); }

  static RawFile shard(int no, int count) {
    RawFile raw;
    raw.header["shard"] = {{"no", no}, {"count", count}};
    raw.tensors.push_back(
        {fmt::format("t{}", no),
         1,
         {static_cast<std::uint32_t>(no)},
         test::noise(static_cast<std::size_t>(2 * no), static_cast<std::uint32_t>(no))});
    return raw;
  }
  [[nodiscard]] fs::path name(int no, int count) const {
    char text[64];
    std::snprintf(text, sizeof text, "m-%05d-of-%05d.cmf", no, count);
    return folder_ / text;
  }
  void write(int no, int count, RawFile raw) { test::write_bytes(name(no, count), raw.build()); }
  void write_set(int count) {
    for (int no = 1; no <= count; ++no) write(no, count, shard(no, count));
  }
  void expect_refused(const fs::path& path, const std::string& part,
                      ErrorKind kind = ErrorKind::kInput) {
    try {
      (void)Reader::open(path);
      ADD_FAILURE() << "accepted; expected: " << part;
    } catch (const Error& error) {
      EXPECT_EQ(error.kind(), kind) << error.what();
      EXPECT_NE(std::string(error.what()).find(part), std::string::npos) << error.what();
    }
  }

  fs::path folder_;
};

TEST_F(ShardTest, OpensASetInOrder) {
  write_set(3);
  const auto reader = Reader::open(name(1, 3));
  EXPECT_EQ(reader->files(), (std::vector<fs::path>{name(1, 3), name(2, 3), name(3, 3)}));
  ASSERT_EQ(reader->tensors().size(), 3U);
  for (std::size_t i = 0; i < 3; ++i) {
    EXPECT_EQ(reader->tensors()[i].name, fmt::format("t{}", i + 1));
    const std::string expected = test::noise(2 * (i + 1), static_cast<std::uint32_t>(i + 1));
    EXPECT_EQ(std::memcmp(reader->payload(i).bytes().data(), expected.data(), expected.size()), 0);
  }
  Pool pool(2);
  EXPECT_TRUE(verify(*reader, pool).problems.empty());
  EXPECT_EQ(summarize(*reader).tensors[2].file, 2U);
}

TEST_F(ShardTest, MustBeOpenedAtShardOne) {
  write_set(2);
  expect_refused(name(2, 2), "this is shard 2 of 2; give the path of shard 1");
}

TEST_F(ShardTest, NamesAMissingShard) {
  write_set(3);
  fs::remove(name(2, 3));
  expect_refused(name(1, 3), "shard 2 of 3 is missing", ErrorKind::kIo);
}

TEST_F(ShardTest, FindsSwappedAndDoubledShards) {
  write_set(3);
  write(2, 3, shard(3, 3));
  write(3, 3, shard(2, 3));
  expect_refused(name(1, 3), "must say shard 2 of 3, says shard 3 of 3");
  write(2, 3, shard(1, 3));
  expect_refused(name(1, 3), "must say shard 2 of 3, says shard 1 of 3");
  RawFile alone = shard(2, 3);
  alone.header.erase("shard");
  write(2, 3, alone);
  expect_refused(name(1, 3), "says nothing about shards");
}

TEST_F(ShardTest, FindsShardsOfAnotherModel) {
  write_set(2);
  RawFile foreign = shard(2, 2);
  foreign.header["arch"]["hidden_size"] = 64;
  write(2, 2, foreign);
  expect_refused(name(1, 2), "arch.hidden_size differs");
}

TEST_F(ShardTest, FindsNamesThatTwoShardsHold) {
  write_set(2);
  RawFile twin = shard(2, 2);
  twin.tensors[0].name = "t1";
  write(2, 2, twin);
  expect_refused(name(1, 2), "tensor t1: appears twice, first in");
}

TEST_F(ShardTest, FileNameMustFitTheNumber) {
  write_set(2);
  fs::rename(name(1, 2), folder_ / "renamed.cmf");
  expect_refused(folder_ / "renamed.cmf", "the file name must end in -00001-of-00002.cmf");
}

TEST_F(ShardTest, HugeCountsFailAtTheFirstMissingFile) {
  RawFile raw = shard(1, 2);
  raw.header["shard"]["count"] = 4294967295U;
  test::write_bytes(folder_ / "m-00001-of-4294967295.cmf", raw.build());
  expect_refused(folder_ / "m-00001-of-4294967295.cmf", "shard 2 of 4294967295 is missing",
                 ErrorKind::kIo);
}

}  // namespace
}  // namespace cortiq::cmf
