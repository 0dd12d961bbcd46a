#include "cortiq/pipeline/plan.hpp"

#include <gtest/gtest.h>

#include <algorithm>
#include <limits>

#include "cortiq/pipeline/jobs.hpp"
#include "data_dirs.hpp"
#include "fake_source.hpp"

namespace cortiq::pipeline {
namespace {

using cmf::DType;
using codec::Codec;
using test::FakeSource;

class PlanTest : public ::testing::Test {
 protected:
  Pool pool_{2};
  NullLog log_;
  Interrupt interrupt_;
  Context context_{pool_, log_, interrupt_};
};

FakeSource model() {
  FakeSource source(cmf::Json{{"arch_name", "llama"}});
  source.add("model.embed_tokens.weight", {40, 64});
  source.add("model.layers.0.mlp.gate_proj.weight", {96, 64});
  source.add("model.norm.weight", {64});
  return source;
}

TEST_F(PlanTest, SizesFollowTheCodecs) {
  const FakeSource source = model();
  const Plan plan = plan_tensors(source, {}, 0.01F, false, context_);
  ASSERT_EQ(plan.output.size(), 3U);
  // q8_2f: a byte a weight, f16 per row and per group column pair (codecs.md section 5).
  EXPECT_EQ(plan.output[0].dtype, DType::kQ82f);
  EXPECT_EQ(plan.output[0].nbytes, *cmf::fixed_payload_bytes(DType::kQ82f, plan.output[0].shape));
  // q4tp: half a byte a weight, two halves a row, five bits a group.
  EXPECT_EQ(plan.output[1].dtype, DType::kQ4tp);
  EXPECT_EQ(plan.output[1].nbytes, 96U * 64 / 2 + 96 * 4 + 96 * ((5 * 2 + 7) / 8));
  EXPECT_EQ(plan.output[2].dtype, DType::kF32);
  EXPECT_EQ(plan.output[2].nbytes, 256U);
  EXPECT_EQ(plan.input_bytes, 4U * (40 * 64 + 96 * 64 + 64));
  std::uint64_t payload = 0;
  for (const auto& tensor : plan.output) payload += tensor.nbytes;
  EXPECT_GT(plan.output_bytes, payload);
  EXPECT_EQ(plan.output_bytes, cmf::plan_file_bytes(source.header(), plan.output, {}));
}

TEST_F(PlanTest, SizesThatDependOnTheWeightsAreMeasured) {
  const FakeSource source = model();
  SelectionOptions options;
  options.gptq = false;
  options.profile = Codec::kQ1s;
  const Plan plan = plan_tensors(source, options, 0.01F, false, context_);
  EXPECT_EQ(plan.output[1].dtype, DType::kQ1s);
  const std::vector<float> weights(96 * 64, 0.5F);
  codec::EncodeOptions encode;
  encode.q1s_keep = 0.01F;
  const auto payload = codec::encode(Codec::kQ1s, {weights.data(), 96, 64}, encode, pool_);
  EXPECT_EQ(plan.output[1].nbytes, payload.size());
}

TEST_F(PlanTest, MeasuringRefusesNonFiniteWeightsUnlessSanitizing) {
  FakeSource source;
  source.add("a.weight", {32, 32}, DType::kF32, std::numeric_limits<float>::quiet_NaN());
  SelectionOptions options;
  options.gptq = false;
  options.profile = Codec::kVbit;
  EXPECT_THROW((void)plan_tensors(source, options, 0.01F, false, context_), Error);
  EXPECT_NO_THROW((void)plan_tensors(source, options, 0.01F, true, context_));
}

TEST_F(PlanTest, LinesCountTensorsPerTreatment) {
  const FakeSource source = model();
  const auto lines = plan_lines(plan_tensors(source, {}, 0.01F, false, context_), source);
  ASSERT_EQ(lines.size(), 4U);
  const auto has = [&](std::string_view part) {
    return std::any_of(lines.begin(), lines.end(),
                       [&](const auto& line) { return line.find(part) != std::string::npos; });
  };
  EXPECT_TRUE(has("GPTQ    q4tp"));
  EXPECT_TRUE(has("rounded q8_2f    (embedding, head)"));
  EXPECT_TRUE(has("copied  f32"));
  EXPECT_TRUE(has("in the matrices without embedding and head"));
}

TEST_F(PlanTest, BitsPerWeightCountEveryTensorAndTheMatricesBesideTheEmbedding) {
  Plan plan;
  plan.output = {{"model.embed_tokens.weight", DType::kQ82f, {100, 32}, 3600},
                 {"model.norm.weight", DType::kF32, {32}, 128},
                 {"model.layers.0.a.weight", DType::kQ4tp, {64, 32}, 1024},
                 {"model.layers.0.b.weight", DType::kF16, {32, 32}, 2048}};
  EXPECT_DOUBLE_EQ(bits_per_weight(plan).layers, 8.0 * 3072 / 3072);
  EXPECT_DOUBLE_EQ(bits_per_weight(plan).all, 8.0 * 6800 / 6304);
  EXPECT_EQ(bits_per_weight(Plan{}).layers, 0);
}

TEST_F(PlanTest, MemoryAboveTheBudgetIsRefused) {
  const FakeSource source = model();
  Plan plan = plan_tensors(source, {}, 0.01F, false, context_);
  GroupPlan group;
  group.width = 64;
  group.tensors = {1};
  plan.groups.push_back(group);
  CalibrationOptions options;
  options.memory_gb = 1.0;
  plan_memory(plan, source, nullptr, 1000, options, 2);
  EXPECT_EQ(plan.memory.hessians, 64U * 64 * 8);
  EXPECT_EQ(plan.memory.budget, 1000000000U);
  EXPECT_FALSE(plan.memory.spill_hidden);
  options.memory_gb = 1e-6;
  try {
    plan_memory(plan, source, nullptr, 1000, options, 2);
    FAIL() << "no error";
  } catch (const Error& error) {
    EXPECT_EQ(error.kind(), ErrorKind::kRefused);
  }
}

TEST(DerivedOutput, IsBesideTheInputWithTheCodecInItsName) {
  namespace fs = std::filesystem;
  const fs::path folder = test::scratch_dir("derived_output");
  fs::create_directory(folder / "my.model");
  EXPECT_EQ(derived_output(folder / "m.cmf", "q4tp"), folder / "m-q4tp.cmf");
  EXPECT_EQ(derived_output(folder / "my.model", "q2tp"), folder / "my.model-q2tp.cmf");
  EXPECT_EQ(derived_output(folder / "my.model" / "", "q2tp"), folder / "my.model-q2tp.cmf");
  EXPECT_EQ(derived_output(folder / "x" / ".." / "m.cmf", "q8"), folder / "m-q8.cmf");
  EXPECT_EQ(derived_output(folder / "m-00001-of-00003.cmf", "q4tp"), folder / "m-q4tp.cmf");
  EXPECT_TRUE(derived_output("m.cmf", "q4tp").is_absolute());
}

}  // namespace
}  // namespace cortiq::pipeline
