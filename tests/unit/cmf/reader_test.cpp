#include "cortiq/cmf/reader.hpp"

#include <gtest/gtest.h>
#include <unistd.h>

#include "cortiq/support/error.hpp"
#include "data_dirs.hpp"
#include "raw_file.hpp"

namespace cortiq::cmf {
namespace {

namespace fs = std::filesystem;
using test::le;
using test::put;
using test::RawFile;

class ReaderTest : public ::testing::Test {
 protected:
  void SetUp() override {
    folder_ = cortiq::test::scratch_dir("cmf_reader");
    path_ = folder_ / "m.cmf";
  }

  std::unique_ptr<Reader> open(const std::string& bytes) {
    test::write_bytes(path_, bytes);
    return Reader::open(path_);
  }

  /// The file must be refused with this kind and a message that names the file and contains `part`.
  void expect_refused(const std::string& bytes, const std::string& part,
                      ErrorKind kind = ErrorKind::kInput) {
    try {
      (void)open(bytes);
      ADD_FAILURE() << "accepted; expected: " << part;
    } catch (const Error& error) {
      const std::string message = error.what();
      EXPECT_EQ(error.kind(), kind) << message;
      EXPECT_NE(message.find(path_.string()), std::string::npos) << message;
      EXPECT_NE(message.find(part), std::string::npos) << message;
    }
  }

  fs::path folder_;
  fs::path path_;
};

TEST_F(ReaderTest, GivesHeaderTensorsAndSections) {
  RawFile raw = test::small_file();
  const auto reader = open(raw.build());
  EXPECT_EQ(reader->path(), path_);
  EXPECT_EQ(reader->files(), std::vector<fs::path>{path_});
  EXPECT_EQ(reader->features(), 1U);
  EXPECT_EQ(reader->header().dump(), raw.header.dump());
  ASSERT_EQ(reader->tensors().size(), 3U);
  const auto index = reader->find("model.layers.0.mlp.up_proj.weight");
  ASSERT_TRUE(index.has_value());
  const TensorInfo& info = reader->tensors()[*index];
  EXPECT_EQ(info.dtype, DType::kF16);
  EXPECT_EQ(info.shape, (std::vector<std::int64_t>{3, 5}));
  EXPECT_EQ(info.nbytes, 30U);
  EXPECT_EQ(info.hash, test::naive_hash64(raw.tensors[1].payload));
  const Payload payload = reader->payload(*index);
  const std::string bytes(reinterpret_cast<const char*>(payload.bytes().data()),
                          payload.bytes().size());
  EXPECT_EQ(bytes, raw.tensors[1].payload);
  reader->release(*index);
  EXPECT_EQ(reader->vocab().size(), raw.vocab.size());
  EXPECT_TRUE(reader->masks().empty());
  EXPECT_TRUE(reader->mask_index().empty());
  EXPECT_FALSE(reader->find("absent").has_value());
  EXPECT_TRUE(reader->warnings().empty());
}

TEST_F(ReaderTest, ReportsAFileThatIsNotThere) {
  try {
    (void)Reader::open(folder_ / "none.cmf");
    FAIL();
  } catch (const Error& error) {
    EXPECT_EQ(error.kind(), ErrorKind::kIo);
  }
}

TEST_F(ReaderTest, RefusesEveryTruncation) {
  RawFile raw = test::small_file();
  std::string bytes = raw.build();
  test::write_bytes(path_, bytes);
  for (std::size_t size = bytes.size(); size-- > 0;) {
    ASSERT_EQ(::truncate(path_.c_str(), static_cast<off_t>(size)), 0);
    const bool zero_fill = size > raw.directory_offset + 500 && size + 600 < bytes.size();
    if (zero_fill && size % 17 != 0) continue;
    EXPECT_THROW((void)Reader::open(path_), Error) << size;
  }
}

TEST_F(ReaderTest, RefusesDamagedEnvelopes) {
  RawFile raw = test::small_file();
  const std::string good = raw.build();
  expect_refused("", "has 0 bytes");
  expect_refused(good.substr(0, 127), "has 127 bytes");
  std::string bad = good;
  bad[0] = 'X';
  expect_refused(bad, "begins with 584d4601");
  bad = good;
  put<std::uint32_t>(bad, 4, 3);
  expect_refused(bad, "version 3", ErrorKind::kUnsupported);
  for (const std::uint32_t bit : {3U, 4U, 14U, 16U, 31U}) {
    bad = good;
    put<std::uint32_t>(bad, 0x0C, 1U | 1U << bit);
    expect_refused(bad, "features that are not known", ErrorKind::kUnsupported);
  }
  bad = good;
  put<std::uint64_t>(bad, 0x18, 0);
  expect_refused(bad, "header section: has length 0");
  bad = good;
  put<std::uint64_t>(bad, 0x28, 0);
  expect_refused(bad, "directory section: has length 0");
}

TEST_F(ReaderTest, RefusesSectionsOutsideTheFile) {
  const std::string good = test::small_file().build();
  const std::vector<std::pair<std::size_t, std::string>> sections{
      {0x10, "header"}, {0x20, "directory"}, {0x30, "data"},
      {0x40, "masks"},  {0x50, "vocab"},     {0x60, "index"}};
  for (const auto& [at, name] : sections) {
    std::string bad = good;
    RawFile::put_range(bad, at, 4096, good.size() - 4095);
    expect_refused(bad, name + " section: offset 4096");
    bad = good;
    RawFile::put_range(bad, at, 4096, UINT64_MAX - 100);
    expect_refused(bad, name + " section: offset 4096");
  }
  std::string bad = good;
  RawFile::put_range(bad, 0x30, 64, 100);
  expect_refused(bad, "offset 64 is no multiple of 4096");
}

TEST_F(ReaderTest, IgnoresFlags) {
  std::string bytes = test::small_file().build();
  put<std::uint32_t>(bytes, 8, 0xDEADBEEF);
  EXPECT_NO_THROW((void)open(bytes));
}

TEST_F(ReaderTest, RefusesBitsThatDisagreeWithTheHeader) {
  for (const std::uint32_t bit : {7U, 8U, 9U, 10U, 11U, 12U, 13U, 15U}) {
    RawFile raw = test::small_file();
    raw.features = 1U | 1U << bit;
    expect_refused(raw.build(), "required_features and the header disagree");
  }
  RawFile raw = test::small_file();
  raw.header["router"] = Json::object();
  expect_refused(raw.build(), "ROUTER_V2");
  raw.features = 1U | 1U << 10;
  EXPECT_NO_THROW((void)open(raw.build()));
  RawFile loose = test::small_file();
  loose.features = 1U << 2;  // not cross-checked
  EXPECT_NO_THROW((void)open(loose.build()));
}

TEST_F(ReaderTest, RefusesDamagedDirectories) {
  RawFile raw = test::small_file();
  const std::string good = raw.build();
  std::string bad = good;
  put<std::uint64_t>(bad, 0x28, 15);
  expect_refused(bad, "directory: has 15 bytes");
  for (const std::uint64_t count :
       {std::uint64_t{4}, std::uint64_t{1} << 60, UINT64_MAX / 56 + 1}) {
    bad = good;
    put(bad, raw.directory_offset, count);
    expect_refused(bad, "directory: ");
  }
  for (const std::uint64_t pool :
       {std::uint64_t{0}, std::uint64_t{16 + 56 * 3 - 1}, std::uint64_t{5000}, UINT64_MAX}) {
    bad = good;
    put(bad, raw.directory_offset + 8, pool);
    expect_refused(bad, "directory: the name pool starts at");
  }
  bad = good;
  put<std::uint32_t>(bad, raw.record_offset(1), 0xFFFFFFFF);
  expect_refused(bad, "directory: record 1: name at 4294967295");
  bad = good;
  put<std::uint16_t>(bad, raw.record_offset(2) + 4, 65535);
  expect_refused(bad, "directory: record 2: name at");
  bad = good;
  bad[raw.record_offset(3)] = static_cast<char>(0xFF);  // first byte of the pool
  expect_refused(bad, "directory: record 0: its name is not UTF-8");
}

TEST_F(ReaderTest, NamesMustBeUtf8) {
  const auto named = [](const std::string& name) {
    RawFile raw = test::small_file();
    raw.tensors.push_back({name, 6, {1}, "x"});
    return raw.build();
  };
  for (const char* good :
       {"a", "\xc2\x80", "\xe0\xa0\x80", "\xed\x9f\xbf", "\xf4\x8f\xbf\xbf", ""}) {
    EXPECT_EQ(open(named(good))->tensors()[3].name, good);
  }
  for (const char* bad :
       {"\x80", "\xc1\xbf", "\xe0\x9f\xbf", "\xed\xa0\x80", "\xf4\x90\x80\x80", "\xf0\x8f\xbf\xbf",
        "\xe2\x82", "a\xc3", "\xe2\x82\x41", "\xf5\x80\x80\x80"}) {
    expect_refused(named(bad), "record 3: its name is not UTF-8");
  }
}

TEST_F(ReaderTest, RefusesDamagedRecords) {
  RawFile raw = test::small_file();
  const std::string good = raw.build();
  const std::size_t record = raw.record_offset(1);
  const std::string name = "tensor model.layers.0.mlp.up_proj.weight: ";
  const auto damaged = [&](std::size_t offset, auto value) {
    std::string bad = good;
    put(bad, record + offset, value);
    return bad;
  };
  expect_refused(damaged(6, std::uint8_t{22}), name + "type id 22", ErrorKind::kUnsupported);
  expect_refused(damaged(7, std::uint8_t{7}), name + "has 7 dimensions");
  expect_refused(damaged(32, std::uint64_t{65}), name + "offset 65 is no multiple of 64");
  expect_refused(damaged(32, std::uint64_t{1} << 20),
                 name + "offset 1048576 and size 30 pass the end");
  expect_refused(damaged(32, UINT64_MAX - 63), name + "offset");
  expect_refused(damaged(40, UINT64_MAX), name + "offset");
  expect_refused(damaged(40, std::uint64_t{32}),
                 name + "f16 [3, 5] needs 30 bytes, the directory says 32");
  expect_refused(damaged(8, std::uint32_t{4}), name + "f16 [4, 5] needs 40 bytes");
  std::string overflow = damaged(7, std::uint8_t{3});
  for (std::size_t d = 0; d < 3; ++d) put(overflow, record + 8 + 4 * d, 0xFFFFFFFFU);
  expect_refused(overflow, "more elements than can be counted");
}

TEST_F(ReaderTest, RefusesShapesThatATypeDoesNotAllow) {
  struct Case {
    std::uint8_t dtype;
    std::vector<std::uint32_t> shape;
  };
  for (const Case& c : {Case{15, {64}}, Case{15, {2, 33}}, Case{16, {1, 2, 32}}, Case{20, {2, 64}},
                        Case{21, {2, 31}}}) {
    RawFile raw = test::small_file();
    raw.tensors.push_back({"bad", c.dtype, c.shape, test::noise(40, 1)});
    expect_refused(raw.build(), "tensor bad: shape [");
  }
}

TEST_F(ReaderTest, RefusesDuplicateNames) {
  RawFile raw = test::small_file();
  raw.tensors.push_back(raw.tensors[1]);
  expect_refused(raw.build(), "tensor model.layers.0.mlp.up_proj.weight: appears twice");
}

TEST_F(ReaderTest, AcceptsZeroLengthTensorsAndAnyTailOrder) {
  RawFile raw = test::small_file();
  raw.tensors.push_back({"empty", 1, {0, 8}, ""});
  std::string bytes = raw.build();
  // Header appended behind everything, as a tool that patches files in place does.
  const std::string text = raw.header.dump();
  RawFile::put_range(bytes, 0x10, bytes.size(), text.size());
  bytes += text;
  const auto reader = open(bytes);
  EXPECT_EQ(reader->payload(3).bytes().size(), 0U);
}

TEST_F(ReaderTest, WarnsOfOverlappingPayloads) {
  RawFile raw = test::small_file();
  raw.tensors[1].offset = 0;
  const auto reader = open(raw.build());
  ASSERT_EQ(reader->warnings().size(), 1U);
  EXPECT_NE(
      reader->warnings()[0].find("model.norm.weight and model.layers.0.mlp.up_proj.weight overlap"),
      std::string::npos);
}

TEST_F(ReaderTest, ReadsPayloadsBeyondFourGigabytes) {
  RawFile raw = test::small_file();
  std::string bytes = raw.build();
  const std::uint64_t far = std::uint64_t{5} << 30;
  put(bytes, raw.record_offset(0) + 32, far);
  put<std::uint64_t>(bytes, 0x38, far + 64);
  put<std::uint64_t>(bytes, 0x78, 0);  // no hash of the changed directory
  test::write_bytes(path_, bytes);
  const std::uint64_t at = raw.data_offset + far;
  if (::truncate(path_.c_str(), static_cast<off_t>(at)) != 0)
    GTEST_SKIP() << "no sparse files here";
  std::ofstream(path_, std::ios::binary | std::ios::app) << raw.tensors[0].payload;
  const auto reader = Reader::open(path_);
  const Payload payload = reader->payload(0);
  EXPECT_EQ(std::memcmp(payload.bytes().data(), raw.tensors[0].payload.data(), 64), 0);
}

TEST_F(ReaderTest, ChecksMasksAndIndex) {
  const auto masks_with = [](const std::string& meta, std::uint32_t count, std::size_t blob) {
    return le(count) + le(static_cast<std::uint32_t>(meta.size())) + meta + std::string(blob, '\1');
  };
  const std::string meta =
      R"({"default_task":0,"masks":[{"task_id":7,"name":"code","blob_off":96,"blob_len":8}]})";
  RawFile raw = test::small_file();
  raw.features = 3;
  raw.masks = masks_with(meta, 1, 40);
  raw.index = le(1U) + le(0U) + le(7U) + le(0U) + le(2U) + le(1U) + std::string(8, '\0');
  EXPECT_EQ(open(raw.build())->masks().size(), raw.masks.size());
  raw.masks = masks_with(meta, 2, 40);
  expect_refused(raw.build(), "masks section: holds 2 masks but describes 1");
  raw.masks = masks_with(meta, 1, 0);
  expect_refused(raw.build(), "masks section: the bits of mask 0");
  raw.masks = masks_with("{", 0, 0);
  expect_refused(raw.build(), "masks section: its description is not a JSON object");
  raw.masks = le(0U) + le(100U);
  expect_refused(raw.build(), "masks section: a description of 100 bytes");
  raw.masks = "abc";
  expect_refused(raw.build(), "masks section: has 3 bytes");
  raw.masks = masks_with(meta, 1, 40);
  for (const std::string& index :
       {std::string("abc"), le(1U) + le(0U) + le(7U),
        le(1U) + le(0U) + le(7U) + le(0U) + le(0xFFFFFFFFU) + le(0xFFFFFFFFU)}) {
    raw.index = index;
    expect_refused(raw.build(), "index section: ");
  }
}

}  // namespace
}  // namespace cortiq::cmf
