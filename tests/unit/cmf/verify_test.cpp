#include "cortiq/cmf/verify.hpp"

#include <gtest/gtest.h>

#include "cortiq/support/error.hpp"
#include "data_dirs.hpp"
#include "raw_file.hpp"

namespace cortiq::cmf {
namespace {

using test::RawFile;

class VerifyTest : public ::testing::Test {
 protected:
  void SetUp() override { path_ = cortiq::test::scratch_dir("cmf_verify") / "m.cmf"; }

  VerifyReport report(const std::string& bytes) {
    test::write_bytes(path_, bytes);
    return verify(*Reader::open(path_), pool_);
  }

  std::filesystem::path path_;
  Pool pool_{1};  // small files: waking workers costs more than hashing
};

bool has(const std::vector<std::string>& lines, const std::string& part) {
  for (const std::string& line : lines) {
    if (line.find(part) != std::string::npos) return true;
  }
  return false;
}

TEST_F(VerifyTest, FindsNothingInAnIntactFile) {
  const VerifyReport r = report(test::small_file().build());
  EXPECT_EQ(r.problems, std::vector<std::string>{});
  EXPECT_EQ(r.warnings, std::vector<std::string>{});
  EXPECT_EQ(r.tensors, 3);
}

TEST_F(VerifyTest, ListsEveryDamagedPart) {
  RawFile raw = test::small_file();
  std::string bytes = raw.build();
  bytes[raw.data_offset] ^= 1;             // model.norm.weight
  bytes[raw.data_offset + 128] ^= 1;       // lm_head.weight
  bytes[bytes.size() - 1] ^= 1;            // vocab
  bytes[bytes.find("\"F16\"") + 2] = '3';  // header: F16 -> F32 below
  bytes[bytes.find("\"F36\"") + 3] = '2';
  const VerifyReport r = report(bytes);
  EXPECT_EQ(r.problems.size(), 4U);
  EXPECT_TRUE(has(r.problems, "tensor model.norm.weight: hash mismatch (stored "));
  EXPECT_TRUE(has(r.problems, "tensor lm_head.weight: hash mismatch"));
  EXPECT_TRUE(has(r.problems, "vocab section: hash mismatch"));
  EXPECT_TRUE(has(r.problems, "header: hash mismatch"));
}

TEST_F(VerifyTest, SkipsHashesThatAreNotRecorded) {
  std::string bytes = test::small_file().build();
  test::put<std::uint64_t>(bytes, 0x70, 0);
  test::put<std::uint64_t>(bytes, 0x78, 0);
  EXPECT_TRUE(report(bytes).problems.empty());
}

TEST_F(VerifyTest, WarnsOfStaleEntriesAndFeatureBits) {
  RawFile raw = test::small_file();
  raw.header["section_hashes"]["masks"] = "0000000000000000";
  raw.features = 1U | 1U << 2;
  const VerifyReport r = report(raw.build());
  EXPECT_TRUE(r.problems.empty());
  EXPECT_TRUE(has(r.warnings, "section_hashes names masks"));
  EXPECT_TRUE(has(r.warnings, "QUANT_2F"));
}

TEST_F(VerifyTest, HashesLongPayloadsInBlocks) {
  RawFile raw;
  const std::uint32_t size =
      (5U << 19) + 3;  // two whole blocks and a tail that is no multiple of 8
  raw.tensors.push_back({"long", 6, {size}, test::noise(size, 5)});
  std::string bytes = raw.build();
  EXPECT_TRUE(report(bytes).problems.empty());
  bytes[raw.data_offset + size - 1] ^= 4;
  EXPECT_EQ(report(bytes).problems.size(), 1U);
}

/// Every single-bit flip either fails to open with an Error, or verify sees it, or the byte has no
/// meaning.
TEST_F(VerifyTest, SeesEverySingleBitFlip) {
  RawFile raw = test::small_file();
  std::string bytes = raw.build();
  const std::size_t head = raw.directory_offset + 16 + 56 * 3 + 90;
  const auto meaningless = [&](std::size_t at) {
    return (at >= 8 && at < 12)  // flags
           || (at >= 0x30 &&
               at < 0x40)  // a data section may begin earlier or reach further than its tensors
           || (at >= 0x40 && at < 0x48) || (at >= 0x60 && at < 0x68);  // offsets of absent sections
  };
  std::uint32_t seed = 99;
  for (std::size_t i = 0; i < 1500; ++i) {
    seed = seed * 1664525U + 1013904223U;
    std::size_t at = i % 3 == 0 ? i / 3 % 128 : (seed >> 8) % head;
    if (i % 7 == 0) at = raw.data_offset + (seed >> 8) % 64;
    const char flip = static_cast<char>(1U << (seed >> 29));
    bytes[at] = static_cast<char>(bytes[at] ^ flip);
    try {
      const VerifyReport r = report(bytes);
      const bool seen = !r.problems.empty() || !r.warnings.empty();
      const bool padding = at >= raw.directory_offset + 16 + 56 * 3 + 64 && at < raw.data_offset;
      EXPECT_TRUE(seen || meaningless(at) || padding) << "byte " << at << " bit mask " << int{flip};
    } catch (const Error& error) {
      EXPECT_NE(std::string(error.what()).find(path_.string()), std::string::npos) << error.what();
    }
    bytes[at] = static_cast<char>(bytes[at] ^ flip);
  }
}

}  // namespace
}  // namespace cortiq::cmf
