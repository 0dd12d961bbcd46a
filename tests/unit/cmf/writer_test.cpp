#include "cortiq/cmf/writer.hpp"

#include <gtest/gtest.h>

#include "cortiq/cmf/reader.hpp"
#include "cortiq/cmf/verify.hpp"
#include "cortiq/support/error.hpp"
#include "data_dirs.hpp"
#include "raw_file.hpp"

namespace cortiq::cmf {
namespace {

namespace fs = std::filesystem;
using test::le;

ByteSpan bytes_of(const std::string& text) { return std::as_bytes(std::span(text)); }
std::string text_of(ByteSpan bytes) {
  return {reinterpret_cast<const char*>(bytes.data()), bytes.size()};
}

struct Model {
  std::vector<PlannedTensor> planned;
  std::vector<std::string> payloads;

  void add(const std::string& name, DType dtype, std::vector<std::int64_t> shape,
           std::size_t nbytes) {
    planned.push_back({name, dtype, std::move(shape), nbytes});
    payloads.push_back(test::noise(nbytes, static_cast<std::uint32_t>(planned.size())));
  }
};

Model small_model() {
  Model model;
  model.add("a", DType::kF16, {5}, 10);
  model.add("b", DType::kU8, {20000}, 20000);
  model.add("c.\xc3\xa9", DType::kQ82f, {4, 32}, 128 + 8 + 64);
  model.add("empty", DType::kF32, {0}, 0);
  return model;
}

class WriterTest : public ::testing::Test {
 protected:
  void SetUp() override {
    folder_ = cortiq::test::scratch_dir("cmf_writer");
    path_ = folder_ / "out.cmf";
    partial_ = folder_ / "out.cmf.partial";
  }

  std::uint64_t write(const Model& model, const Header& header,
                      const WriterSections& sections = {}) {
    Writer writer(path_, header, model.planned, sections);
    for (std::size_t i = 0; i < model.payloads.size(); ++i)
      writer.write_tensor(i, bytes_of(model.payloads[i]));
    return writer.finish(header);
  }

  void expect_intact(const Reader& reader) {
    const VerifyReport report = verify(reader, pool_);
    EXPECT_EQ(report.problems, std::vector<std::string>{});
    EXPECT_EQ(report.warnings, std::vector<std::string>{});
  }

  /// Message of the error of this kind that planning must give; no file may be left behind.
  std::string refusal(const Model& model, ErrorKind kind,
                      const Header& header = Header(test::minimal_header())) {
    std::string message = "accepted";
    try {
      const Writer writer(path_, header, model.planned, {});
    } catch (const Error& error) {
      EXPECT_EQ(error.kind(), kind) << error.what();
      message = error.what();
    }
    EXPECT_FALSE(fs::exists(partial_));
    EXPECT_FALSE(fs::exists(path_));
    return message;
  }

  fs::path folder_;
  fs::path path_;
  fs::path partial_;
  Pool pool_{3};
};

std::string whole_file(const fs::path& path) {
  std::ifstream stream(path, std::ios::binary);
  return {std::istreambuf_iterator<char>(stream), {}};
}

void expect_contains(const std::string& text, const std::string& part) {
  EXPECT_NE(text.find(part), std::string::npos) << text;
}

TEST_F(WriterTest, WritesWhatTheReaderReads) {
  const Model model = small_model();
  const Header header(test::minimal_header());
  const std::uint64_t size = write(model, header);
  EXPECT_EQ(size, fs::file_size(path_));
  EXPECT_EQ(size, plan_file_bytes(header, model.planned, {}));
  EXPECT_FALSE(fs::exists(partial_));
  const auto reader = Reader::open(path_);
  expect_intact(*reader);
  EXPECT_EQ(reader->features(), 0x5U);  // q8_2f sets QUANT_2F
  ASSERT_EQ(reader->tensors().size(), model.planned.size());
  for (std::size_t i = 0; i < model.planned.size(); ++i) {
    const TensorInfo& info = reader->tensors()[i];
    EXPECT_EQ(info.name, model.planned[i].name);
    EXPECT_EQ(info.dtype, model.planned[i].dtype);
    EXPECT_EQ(info.shape, model.planned[i].shape);
    EXPECT_EQ(info.hash, test::naive_hash64(model.payloads[i]));
    EXPECT_EQ(text_of(reader->payload(i).bytes()), model.payloads[i]);
  }
}

TEST_F(WriterTest, PlacesPayloadsByTheRulesOfTheFormat) {
  write(small_model(), Header(test::minimal_header()));
  std::ifstream stream(path_, std::ios::binary);
  const std::string file((std::istreambuf_iterator<char>(stream)),
                         std::istreambuf_iterator<char>());
  const auto u64 = [&file](std::size_t at) {
    std::uint64_t value = 0;
    std::memcpy(&value, file.data() + at, 8);
    return value;
  };
  EXPECT_EQ(u64(0x10), 128U);              // header
  EXPECT_EQ(u64(0x20), 128U + u64(0x18));  // directory directly behind it
  EXPECT_EQ(u64(0x30) % 4096, 0U);
  const std::size_t directory = u64(0x20);
  EXPECT_EQ(u64(directory + 16 + 56 * 0 + 32), 0U);
  EXPECT_EQ(u64(directory + 16 + 56 * 1 + 32), 4096U);   // 20000 bytes: aligned to a page
  EXPECT_EQ(u64(directory + 16 + 56 * 2 + 32), 24128U);  // 24096 rounded up to 64
  EXPECT_EQ(u64(0x38), 24384U);  // the empty tensor at the next multiple of 64
  EXPECT_EQ(u64(0x30) + u64(0x38), file.size());
}

TEST_F(WriterTest, KeepsUnknownKeysAndRawSectionsAndDropsStaleRecords) {
  Json json = test::minimal_header();
  json["shard"] = {{"no", 1}, {"count", 3}};
  json["future"] = {{"big", 18446744073709551615ULL}, {"eps", 1e-300}};
  json["segments"] = Json::array({{{"kind", "x"}}});
  json["section_hashes"] = {{"masks", "0123456789abcdef"}};
  json["skills"] = Json::parse(R"([{"id":"s","kind":"lora"}])");
  const std::string meta = R"({"masks":[{"name":"m","blob_off":64,"blob_len":8}]})";
  const std::string masks =
      le(1U) + le(static_cast<std::uint32_t>(meta.size())) + meta + std::string(40, '\5');
  const std::string vocab = "{\"vocab\":1}";
  const std::string index = le(0U) + le(0U);
  write(small_model(), Header(json), {bytes_of(masks), bytes_of(vocab), bytes_of(index)});
  const auto reader = Reader::open(path_);
  expect_intact(*reader);
  EXPECT_EQ(text_of(reader->masks()), masks);
  EXPECT_EQ(text_of(reader->vocab()), vocab);
  EXPECT_EQ(text_of(reader->mask_index()), index);
  EXPECT_EQ(reader->features(), 0x7U | 1U << 9);
  const Json& written = reader->header().json();
  EXPECT_FALSE(written.contains("shard"));
  EXPECT_FALSE(written.contains("segments"));
  EXPECT_EQ(written["future"].dump(), json["future"].dump());
  EXPECT_EQ(written["section_hashes"].size(), 3U);
  std::vector<std::string> order;
  for (const auto& item : written.items()) order.push_back(item.key());
  EXPECT_EQ(order, (std::vector<std::string>{"format", "version", "arch", "quant_type", "future",
                                             "section_hashes", "skills"}));
}

TEST_F(WriterTest, RemovesSectionHashesWhereNoSectionIs) {
  Json json = test::minimal_header();
  json["section_hashes"] = {{"masks", "0123456789abcdef"}};
  write(small_model(), Header(json));
  EXPECT_FALSE(Reader::open(path_)->header().json().contains("section_hashes"));
}

TEST_F(WriterTest, TakesAHeaderThatGrewWithinTheSlack) {
  const Model model = small_model();
  Json json = test::minimal_header();
  Writer writer(path_, Header(json), model.planned, {}, 1000);
  for (std::size_t i = 0; i < model.payloads.size(); ++i)
    writer.write_tensor(i, bytes_of(model.payloads[i]));
  json["provenance"] = std::string(900, 'x');
  EXPECT_EQ(writer.finish(Header(json)), writer.planned_bytes());
  const auto reader = Reader::open(path_);
  expect_intact(*reader);
  EXPECT_EQ(reader->header().json()["provenance"].get<std::string>().size(), 900U);
}

TEST_F(WriterTest, PutsALongerHeaderBehindTheData) {
  const Model model = small_model();
  const std::string vocab = "{}";
  Json json = test::minimal_header();
  Writer writer(path_, Header(json), model.planned, {{}, bytes_of(vocab), {}}, 10);
  for (std::size_t i = 0; i < model.payloads.size(); ++i)
    writer.write_tensor(i, bytes_of(model.payloads[i]));
  json["provenance"] = std::string(100000, 'x');
  const std::uint64_t size = writer.finish(Header(json));
  EXPECT_GT(size, writer.planned_bytes());
  EXPECT_EQ(size, fs::file_size(path_));
  const auto reader = Reader::open(path_);
  expect_intact(*reader);
  EXPECT_EQ(reader->header().json()["provenance"].get<std::string>().size(), 100000U);
  EXPECT_EQ(text_of(reader->vocab()), vocab);
}

TEST_F(WriterTest, MayBeFedFromSeveralThreadsInAnyOrder) {
  Model model;
  for (int i = 0; i < 200; ++i) {
    const std::int64_t n = 1 + i * 37 % 500;
    model.add(fmt::format("t{}", i), DType::kU8, {n}, static_cast<std::size_t>(n));
  }
  const Header header(test::minimal_header());
  Writer writer(path_, header, model.planned, {});
  pool_.for_each(200, [&](std::int64_t i) {
    const auto index = static_cast<std::size_t>((i * 77) % 200);
    writer.write_tensor(index, bytes_of(model.payloads[index]));
  });
  writer.finish(header);
  const auto reader = Reader::open(path_);
  expect_intact(*reader);
  for (std::size_t i = 0; i < 200; ++i)
    EXPECT_EQ(text_of(reader->payload(i).bytes()), model.payloads[i]);
}

TEST_F(WriterTest, ReadsBackWhatWasWrittenBeforeTheFileIsFinished) {
  const Model model = small_model();
  Writer writer(path_, Header(test::minimal_header()), model.planned, {});
  EXPECT_FALSE(writer.is_written(1));
  for (std::size_t i = model.planned.size(); i-- > 0;)
    writer.write_tensor(i, bytes_of(model.payloads[i]));
  for (std::size_t i = 0; i < model.planned.size(); ++i) {
    EXPECT_TRUE(writer.is_written(i));
    EXPECT_EQ(text_of(writer.read_back(i)), model.payloads[i]);
  }
}

TEST_F(WriterTest, RemovesOrKeepsThePartialFile) {
  const Model model = small_model();
  const Header header(test::minimal_header());
  {
    const Writer writer(path_, header, model.planned, {});
    EXPECT_TRUE(fs::exists(partial_));
    EXPECT_FALSE(fs::exists(path_));
  }
  EXPECT_FALSE(fs::exists(partial_));
  {
    Writer writer(path_, header, model.planned, {});
    writer.keep_partial();
  }
  EXPECT_TRUE(fs::exists(partial_));
  EXPECT_FALSE(fs::exists(path_));
}

TEST_F(WriterTest, AReopenedFileHasTheBytesOfOneWrittenAtOnce) {
  const Model model = small_model();
  const Header header(test::minimal_header());
  write(model, header);
  const std::string whole = whole_file(path_);
  fs::remove(path_);
  std::uint64_t hash = 0;
  {
    Writer writer(path_, header, model.planned, {});
    writer.write_tensor(1, bytes_of(model.payloads[1]));
    hash = writer.payload_hash(1);
    writer.sync();
    writer.keep_partial();
  }
  const auto writer = Writer::reopen(path_, header, model.planned, {});
  EXPECT_FALSE(writer->is_written(1));
  EXPECT_TRUE(writer->holds_tensor(1, hash));
  EXPECT_FALSE(writer->holds_tensor(1, hash + 1));
  EXPECT_FALSE(writer->holds_tensor(0, test::naive_hash64(model.payloads[0])));
  writer->adopt_tensor(1, hash);
  EXPECT_TRUE(writer->is_written(1));
  EXPECT_EQ(hash, test::naive_hash64(model.payloads[1]));
  for (const std::size_t i : {0U, 2U, 3U}) writer->write_tensor(i, bytes_of(model.payloads[i]));
  writer->finish(header);
  EXPECT_EQ(whole_file(path_), whole);
}

TEST_F(WriterTest, AReopenedFileTakesOverNothingButPayloads) {
  const Model model = small_model();
  const std::string vocab = R"({"model":{}})";
  const WriterSections sections{{}, bytes_of(vocab), {}};
  const Header header(test::minimal_header());
  write(model, header, sections);
  const std::string whole = whole_file(path_);
  fs::remove(path_);
  std::vector<std::uint64_t> hashes;
  {
    Writer writer(path_, header, model.planned, sections);
    for (std::size_t i = 0; i < model.payloads.size(); ++i) {
      writer.write_tensor(i, bytes_of(model.payloads[i]));
      hashes.push_back(writer.payload_hash(i));
    }
    writer.keep_partial();
  }
  // Every byte outside of the payloads is damaged, and the file has grown.
  std::string damaged(whole.size() + 5000, '\xa5');
  for (const std::string& payload : model.payloads) {
    if (!payload.empty()) damaged.replace(whole.find(payload), payload.size(), payload);
  }
  std::ofstream(partial_, std::ios::binary) << damaged;
  const auto writer = Writer::reopen(path_, header, model.planned, sections);
  for (std::size_t i = 0; i < hashes.size(); ++i) {
    ASSERT_TRUE(writer->holds_tensor(i, hashes[i]));
    writer->adopt_tensor(i, hashes[i]);
  }
  writer->finish(header);
  EXPECT_EQ(whole_file(path_), whole);
}

TEST_F(WriterTest, RefusesToEmptyThePartialFileOfSomebodyElse) {
  const Model model = small_model();
  const Header header(test::minimal_header());
  write(model, header);
  for (const std::string& text : {std::string("my notes"), whole_file(path_)}) {
    std::ofstream(partial_, std::ios::binary) << text;
    EXPECT_THROW(Writer::check_partial(path_), Error);
    EXPECT_THROW(Writer(path_, header, model.planned, {}), Error);
    EXPECT_EQ(whole_file(partial_), text);
  }
  fs::remove(partial_);
  {
    Writer writer(path_, header, model.planned, {});
    writer.keep_partial();
  }
  Writer::check_partial(path_);
  write(model, header);
}

TEST_F(WriterTest, ReopeningNeedsThePartialFileAndCompletesItsSize) {
  const Model model = small_model();
  const Header header(test::minimal_header());
  EXPECT_THROW((void)Writer::reopen(path_, header, model.planned, {}), Error);
  EXPECT_FALSE(fs::exists(partial_));
  const std::uint64_t size = write(model, header);
  const std::string whole = whole_file(path_);
  fs::remove(path_);
  std::ofstream(partial_) << "";
  const auto writer = Writer::reopen(path_, header, model.planned, {});
  EXPECT_EQ(fs::file_size(partial_), size);
  for (std::size_t i = 0; i < model.payloads.size(); ++i)
    writer->write_tensor(i, bytes_of(model.payloads[i]));
  writer->finish(header);
  EXPECT_EQ(whole_file(path_), whole);
}

TEST_F(WriterTest, ReplacesItsOwnInput) {
  write(small_model(), Header(test::minimal_header()));
  const auto input = Reader::open(path_);
  Model model;
  model.add("other", DType::kU8, {3}, 3);
  write(model, Header(test::minimal_header()));
  EXPECT_EQ(text_of(input->payload(1).bytes()), small_model().payloads[1]);  // still mapped
  EXPECT_EQ(Reader::open(path_)->tensors().size(), 1U);
}

TEST_F(WriterTest, RefusesWhatDoesNotFitOnTheDisk) {
  Model model;
  const std::int64_t huge = std::int64_t{1} << 31;
  model.planned.push_back(
      {"huge", DType::kU8, {huge, huge / 4096}, static_cast<std::uint64_t>(huge) * 524288U});
  const std::string message = refusal(model, ErrorKind::kRefused);
  expect_contains(message, "not enough space: the file needs 11258999");
  expect_contains(message, " are free in its folder");
}

TEST_F(WriterTest, RefusesWhatTheFormatCannotHold) {
  Model model;
  model.planned.push_back({std::string(65536, 'n'), DType::kU8, {1}, 1});
  expect_contains(refusal(model, ErrorKind::kUnsupported), "its name has 65536 bytes");
  model.planned = {{"t", DType::kU8, {1, 1, 1, 1, 1, 1, 1}, 1}};
  expect_contains(refusal(model, ErrorKind::kUnsupported), "has 7 dimensions");
  model.planned = {{"t", DType::kU8, {std::int64_t{1} << 32}, std::uint64_t{1} << 32}};
  expect_contains(refusal(model, ErrorKind::kUnsupported), "extent outside 0..4294967295");
}

TEST_F(WriterTest, RefusesPlansThatContradictThemselves) {
  Model model;
  model.planned = {{"t", DType::kF16, {4}, 7}};
  expect_contains(refusal(model, ErrorKind::kInput),
                  "tensor t: f16 [4] needs 8 bytes, 7 are planned");
  model.planned = {{"t", DType::kQ4tp, {4, 33}, 7}};
  expect_contains(refusal(model, ErrorKind::kInput), "is not an allowed shape");
  model.planned = {{"t", DType::kU8, {1}, 1}, {"t", DType::kU8, {1}, 1}};
  expect_contains(refusal(model, ErrorKind::kInput), "tensor t: is planned twice");
  model.planned = {{"\xff", DType::kU8, {1}, 1}};
  expect_contains(refusal(model, ErrorKind::kInput), "not UTF-8");
  model.planned = {{"t", DType::kU8, {1}, 1}};
  Json json = test::minimal_header();
  json["arch"].erase("head_dim");
  expect_contains(refusal(model, ErrorKind::kInput, Header(json)), "arch.head_dim is missing");
}

TEST_F(WriterTest, WritesAFileWithoutTensors) {
  write(Model{}, Header(test::minimal_header()));
  EXPECT_TRUE(Reader::open(path_)->tensors().empty());
}

}  // namespace
}  // namespace cortiq::cmf
