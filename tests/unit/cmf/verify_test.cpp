#include "cortiq/cmf/verify.hpp"

#include <gtest/gtest.h>

#include "cortiq/cmf/writer.hpp"
#include "cortiq/support/bytes.hpp"
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
    return verify(*Reader::open(path_, Reader::Hashes::kIgnore), pool_);
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

/// A model with every section and gaps of each kind.
std::string file_with_all_parts(const std::filesystem::path& path) {
  const std::string vocab = R"({"model":{}})";
  std::vector<PlannedTensor> planned{{"model.norm.weight", DType::kF32, {4}, 16},
                                     {"lm_head.weight", DType::kF16, {4, 9}, 72},
                                     {"empty", DType::kU8, {0}, 0},
                                     {"large", DType::kU8, {16385}, 16385}};
  const Header header(test::minimal_header());
  Writer writer(path, header, planned, {{}, std::as_bytes(std::span(vocab)), {}}, 100);
  for (std::size_t i = 0; i < planned.size(); ++i) {
    const std::string payload = test::noise(planned[i].nbytes, static_cast<std::uint32_t>(i));
    writer.write_tensor(i, std::as_bytes(std::span(payload)));
  }
  writer.finish(header);
  std::ifstream stream(path, std::ios::binary);
  return {std::istreambuf_iterator<char>(stream), {}};
}

/// Whether opening or verifying finds anything in these bytes.
bool noticed(const std::filesystem::path& path, Pool& pool) {
  try {
    const VerifyReport r = verify(*Reader::open(path, Reader::Hashes::kIgnore), pool);
    return !r.problems.empty() || !r.warnings.empty();
  } catch (const Error& error) {
    EXPECT_NE(std::string(error.what()).find(path.string()), std::string::npos) << error.what();
    return true;
  }
}

TEST_F(VerifyTest, SeesAFlipOfEveryByteOfAFile) {
  const std::string bytes = file_with_all_parts(path_);
  ASSERT_FALSE(noticed(path_, pool_));
  std::fstream file(path_, std::ios::binary | std::ios::in | std::ios::out);
  const auto put = [&](std::size_t at, char value) {
    file.seekp(static_cast<std::streamoff>(at));
    file.put(value);
    file.flush();
  };
  std::uint32_t seed = 99;
  for (std::size_t at = 0; at < bytes.size(); ++at) {
    const bool envelope = at < 128;
    // All bits of the envelope; elsewhere one of every byte, of long stretches of every 7th.
    if (at >= 2048 && at % 7 != 0) continue;
    for (int bit = 0; bit < 8; ++bit) {
      seed = seed * 1664525U + 1013904223U;
      if (!envelope && bit != static_cast<int>(seed >> 29)) continue;
      put(at, static_cast<char>(bytes[at] ^ (1 << bit)));
      EXPECT_TRUE(noticed(path_, pool_)) << "byte " << at << " bit " << bit;
    }
    put(at, bytes[at]);
  }
  EXPECT_FALSE(noticed(path_, pool_));
}

TEST_F(VerifyTest, RejectsWhatLiesBetweenThePartsOfAFileThatWasWrittenAtOnce) {
  RawFile raw = test::small_file();
  std::string bytes = raw.build();
  bytes[raw.data_offset - 1] = 'x';
  EXPECT_TRUE(has(report(bytes).problems, fmt::format("1 bytes that belong to nothing are not zero, "
                                                      "the first at offset {}",
                                                      raw.data_offset - 1)));
  bytes = raw.build() + std::string(100, '\0');
  EXPECT_TRUE(report(bytes).problems.empty());
  EXPECT_TRUE(has(report(bytes).warnings, "100 bytes lie behind the last section"));
  bytes = raw.build();
  test::put<std::uint64_t>(bytes, 0x60, 4096);
  EXPECT_TRUE(has(report(bytes).problems, "index section: offset 4096 without a length"));
  bytes = raw.build();
  test::put<std::uint32_t>(bytes, 0x08, 2);
  EXPECT_TRUE(has(report(bytes).warnings, "flags is 0x2"));
}

TEST_F(VerifyTest, OnlyWarnsOfRemainsInAFileThatWasAppendedTo) {
  RawFile raw = test::small_file();
  std::string bytes = raw.build();
  // Header and directory move behind the end; the old ones stay as dead bytes.
  for (const std::size_t field : {0x10U, 0x20U}) {
    const auto offset = load_le<std::uint64_t>(std::as_bytes(std::span(bytes)).data() + field);
    const auto length = load_le<std::uint64_t>(std::as_bytes(std::span(bytes)).data() + field + 8);
    const std::uint64_t end = bytes.size();
    bytes += bytes.substr(offset, length);
    test::put<std::uint64_t>(bytes, field, end);
  }
  const VerifyReport r = report(bytes);
  EXPECT_EQ(r.problems, std::vector<std::string>{});
  EXPECT_TRUE(has(r.warnings, "remains of an older state, or damage"));
}

}  // namespace
}  // namespace cortiq::cmf
