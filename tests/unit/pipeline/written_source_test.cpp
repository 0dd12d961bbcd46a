// A model of which some tensors are already written in another precision.
#include "../../../src/pipeline/written_source.hpp"

#include <gtest/gtest.h>

#include "data_dirs.hpp"
#include "fake_source.hpp"

namespace cortiq::pipeline::test {
namespace {

/// The least that a writer takes.
cmf::Header header() {
  return cmf::Header(cmf::Json::parse(
      R"({"format":"cmf","version":2,"arch":{"arch_name":"llama","hidden_size":32,"intermediate_size":64,
      "num_layers":0,"num_attention_heads":2,"num_kv_heads":1,"head_dim":16,"vocab_size":100,"layer_types":[],
      "rms_norm_eps":1e-06,"max_position_embeddings":64},"quant_type":"F16"})"));
}

TEST(WrittenSource, shows_the_bytes_and_dtype_of_what_is_written_and_the_input_otherwise) {
  cortiq::test::FakeSource input;
  input.add("a", {2, 4}).add("b", {2, 4});
  const std::vector<cmf::PlannedTensor> planned{{"a", cmf::DType::kF16, {2, 4}, 16},
                                                {"b", cmf::DType::kF16, {2, 4}, 16}};
  const auto folder = cortiq::test::scratch_dir("written-source");
  cmf::Writer writer(folder / "out.cmf", header(), planned, {});
  WrittenSource source(input, writer);
  EXPECT_EQ(source.tensors()[1].dtype, cmf::DType::kF32);
  std::vector<std::byte> payload(16, std::byte{0x3C});
  writer.write_tensor(1, payload);
  EXPECT_EQ(source.tensors()[1].dtype, cmf::DType::kF32) << "until it is refreshed";
  source.refresh();
  EXPECT_EQ(source.tensors()[1].dtype, cmf::DType::kF16);
  EXPECT_EQ(source.tensors()[1].nbytes, 16U);
  const cmf::Payload held = source.payload(1);
  EXPECT_TRUE(std::equal(payload.begin(), payload.end(), held.bytes().begin(), held.bytes().end()));
  EXPECT_EQ(source.tensors()[0].dtype, cmf::DType::kF32);
  EXPECT_EQ(source.payload(0).bytes().size(), 32U);
  EXPECT_EQ(source.find("b"), 1U);
}

}  // namespace
}  // namespace cortiq::pipeline::test
