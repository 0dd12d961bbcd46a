#include "../../../src/cmf/section_hashes.hpp"

#include <gtest/gtest.h>

#include <functional>

#include "cortiq/cmf/summary.hpp"
#include "cortiq/cmf/verify.hpp"
#include "cortiq/support/error.hpp"
#include "data_dirs.hpp"
#include "raw_file.hpp"

namespace cortiq::cmf {
namespace {

using test::naive_hash64;
using test::RawFile;

std::string hex(std::string_view bytes) { return fmt::format("{:016x}", naive_hash64(bytes)); }

class SectionHashesTest : public ::testing::Test {
 protected:
  void SetUp() override { path_ = cortiq::test::scratch_dir("cmf_section_hashes") / "m.cmf"; }

  std::unique_ptr<Reader> open(const std::string& bytes,
                               Reader::Hashes hashes = Reader::Hashes::kCheck) {
    test::write_bytes(path_, bytes);
    return Reader::open(path_, hashes);
  }

  /// The message must name the file, the section, both hashes and what to do, once each.
  void expect_mismatch(const std::function<void()>& action, const std::string& section,
                       const std::string& stored, const std::string& computed) {
    try {
      action();
      ADD_FAILURE() << "accepted; expected a damaged " << section;
    } catch (const Error& error) {
      EXPECT_EQ(error.kind(), ErrorKind::kInput);
      EXPECT_EQ(error.what(),
                fmt::format("{}: {}: hash mismatch (stored {}, computed {}); the file is damaged; {}",
                            path_.string(), section, stored, computed, kDamageRemedy));
    }
  }

  std::filesystem::path path_;
};

/// small_file() with another number of positions in the header; its text after the change.
std::string with_damaged_header(std::string* text) {
  RawFile raw = test::small_file();
  std::string bytes = raw.build();
  *text = raw.header.dump();
  const std::string from = "\"max_position_embeddings\":64";
  bytes[bytes.find(from) + from.size() - 1] = '5';
  (*text)[text->find(from) + from.size() - 1] = '5';
  return bytes;
}

TEST_F(SectionHashesTest, ADamagedHeaderIsRefusedWhenTheFileIsOpened) {
  std::string text;
  const std::string bytes = with_damaged_header(&text);
  expect_mismatch([&] { (void)open(bytes); }, "header", hex(test::small_file().header.dump()),
                  hex(text));
}

TEST_F(SectionHashesTest, ADamagedDirectoryIsRefusedWhenTheFileIsOpened) {
  RawFile raw = test::small_file();
  std::string bytes = raw.build();
  std::size_t length = 16 + 56 * raw.tensors.size();
  for (const auto& tensor : raw.tensors) length += tensor.name.size();
  const std::string before = bytes.substr(raw.directory_offset, length);
  bytes[bytes.find("model.norm")] = 'x';
  const std::string after = bytes.substr(raw.directory_offset, length);
  expect_mismatch([&] { (void)open(bytes); }, "directory", hex(before), hex(after));
}

TEST_F(SectionHashesTest, ADamagedVocabularyIsRefusedEachTimeItIsAskedFor) {
  RawFile raw = test::small_file();
  std::string bytes = raw.build();
  bytes.back() = 'x';
  std::string vocab = raw.vocab;
  vocab.back() = 'x';
  const auto reader = open(bytes);
  for (int i = 0; i < 2; ++i) {
    expect_mismatch([&] { (void)reader->vocab(); }, "vocab section", hex(raw.vocab), hex(vocab));
  }
  EXPECT_EQ(reader->payload(0).bytes().size(), 64U);  // needs no vocabulary
}

TEST_F(SectionHashesTest, TheOtherShardsAreComparedToo) {
  const auto folder = path_.parent_path();
  for (const int no : {1, 2}) {
    RawFile raw;
    raw.header["shard"] = {{"no", no}, {"count", 2}};
    raw.tensors.push_back({fmt::format("t{}", no), 1, {2}, "abcd"});
    std::string bytes = raw.build();
    if (no == 2) bytes[bytes.find(":64") + 2] = '5';
    test::write_bytes(folder / fmt::format("m-0000{}-of-00002.cmf", no), bytes);
  }
  try {
    (void)Reader::open(folder / "m-00001-of-00002.cmf");
    ADD_FAILURE() << "accepted";
  } catch (const Error& error) {
    EXPECT_NE(std::string(error.what()).find("m-00002-of-00002.cmf: header: hash mismatch"),
              std::string::npos)
        << error.what();
  }
}

TEST_F(SectionHashesTest, HashesThatAreNotRecordedAreNotCompared) {
  std::string text;
  std::string bytes = with_damaged_header(&text);
  test::put<std::uint64_t>(bytes, 0x70, 0);
  test::put<std::uint64_t>(bytes, 0x78, 0);
  EXPECT_EQ(open(bytes)->header().dump(), text);
  RawFile raw = test::small_file();
  raw.header.erase("section_hashes");
  raw.vocab = "anything";
  EXPECT_EQ(open(raw.build())->vocab().size(), 8U);
}

TEST_F(SectionHashesTest, ADamagedFileCanBeOpenedAsItIsAndSaysWhatIsDamaged) {
  std::string text;
  std::string bytes = with_damaged_header(&text);
  bytes.back() = 'x';
  const auto reader = open(bytes, Reader::Hashes::kIgnore);
  EXPECT_EQ(reader->vocab().size(), test::small_file().vocab.size());
  EXPECT_EQ(summarize(*reader).vocab_bytes, test::small_file().vocab.size());
  const auto problems = section_problems(*reader);
  ASSERT_EQ(problems.size(), 2U);
  EXPECT_NE(problems[0].find("header: hash mismatch (stored "), std::string::npos);
  EXPECT_NE(problems[1].find("vocab section: hash mismatch (stored "), std::string::npos);
}

}  // namespace
}  // namespace cortiq::cmf
