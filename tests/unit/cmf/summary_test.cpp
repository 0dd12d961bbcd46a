#include "cortiq/cmf/summary.hpp"

#include <gtest/gtest.h>

#include "data_dirs.hpp"
#include "raw_file.hpp"

namespace cortiq::cmf {
namespace {

TEST(Summary, CountsTypesBytesAndSections) {
  const auto path = cortiq::test::scratch_dir("cmf_summary") / "m.cmf";
  test::RawFile raw = test::small_file();
  raw.header["skills"] = Json::parse(R"([{"id":"a"},{"id":"b"}])");
  raw.tensors.push_back({"raw", 6, {100}, test::noise(100, 4)});
  const std::string bytes = raw.build();
  test::write_bytes(path, bytes);
  const auto reader = Reader::open(path);
  const Summary summary = summarize(*reader);
  EXPECT_EQ(summary.arch_name, "llama");
  EXPECT_EQ(summary.quant_type, "F16");
  EXPECT_EQ(summary.layers, 2);
  EXPECT_EQ(summary.features, 1U);
  EXPECT_EQ(summary.file_bytes, bytes.size());
  EXPECT_EQ(summary.skills, 2U);
  EXPECT_EQ(summary.vocab_bytes, raw.vocab.size());
  ASSERT_EQ(summary.sections.size(), 4U);
  EXPECT_EQ(summary.sections[0].name, "header");
  EXPECT_EQ(summary.sections[0].offset, 128U);
  EXPECT_EQ(summary.sections[3].name, "vocab");
  ASSERT_EQ(summary.dtypes.size(), 3U);
  EXPECT_EQ(summary.dtypes[0].dtype, DType::kF16);
  EXPECT_EQ(summary.dtypes[0].tensors, 2);
  EXPECT_EQ(summary.dtypes[0].elements, 47U);
  EXPECT_EQ(summary.dtypes[0].nbytes, 94U);
  ASSERT_EQ(summary.tensors.size(), 4U);
  EXPECT_EQ(summary.tensors[0].offset, raw.data_offset);
  EXPECT_EQ(summary.tensors[2].hash, test::naive_hash64(raw.tensors[2].payload));
  EXPECT_DOUBLE_EQ(summary.bits_per_weight, 8.0 * (64 + 30 + 72) / (32 + 15 + 128));
  EXPECT_DOUBLE_EQ(summary.matrix_bits_per_weight, 8.0 * (30 + 72) / (15 + 128));
  EXPECT_EQ(refuse_reason_for_quantize(*reader), "");
}

TEST(Summary, GivesTheReasonToRefuse) {
  const auto path = cortiq::test::scratch_dir("cmf_summary") / "m.cmf";
  test::RawFile raw = test::small_file();
  raw.header["genome"] = Json::object();
  raw.features = 1U | 1U << 13;
  test::write_bytes(path, raw.build());
  EXPECT_NE(refuse_reason_for_quantize(*Reader::open(path)).find("genome"), std::string::npos);
}

}  // namespace
}  // namespace cortiq::cmf
