// Experts, linear attention, output gates and sinks against the plain f64 reference.
#include <gtest/gtest.h>

#include <algorithm>
#include <cmath>

#include "cortiq/model/roles.hpp"
#include "run_model.hpp"

namespace cortiq::model::test {
namespace {

TEST(Experts, SoftmaxRouterWithRenormalisedWeightsMatchesReference) {
  MemorySource source = make_tiny({.family = "mixtral"});
  add_experts(source, 0, {});
  add_experts(source, 1, {});
  source.arch["moe"]["norm_topk_prob"] = true;
  expect_matches_reference(source, 120);
}

TEST(Experts, GatedSharedExpertBesideDenseLayerMatchesReference) {
  MemorySource source = make_tiny({.family = "qwen2_moe", .bias = true});
  add_experts(source, 1, {.count = 7, .top_k = 3, .shared_width = 44, .shared_gate = true});
  expect_matches_reference(source, 120);
}

TEST(Experts, SigmoidRouterWithBiasAndScaleMatchesReference) {
  MemorySource source = make_tiny({.family = "qwen3_moe", .qk_norm = true});
  add_experts(source, 0, {.count = 6, .top_k = 4, .shared_width = 20, .bias = true});
  source.arch["moe"]["router_sigmoid"] = true;
  source.arch["moe"]["norm_topk_prob"] = true;
  source.arch["moe"]["routed_scaling_factor"] = 2.5;
  expect_matches_reference(source, 120);
}

TEST(Experts, NormsAroundThemMatchReference) {
  MemorySource source = make_tiny({.family = "gemma2", .sandwich = true});
  add_experts(source, 0, {});
  expect_matches_reference(source, 60, 1e-4);
}

TEST(Experts, EqualScoresGoToTheLowerExperts) {
  MemorySource source = make_tiny({.family = "mixtral"});
  add_experts(source, 0, {});
  source.finish();
  auto& router = source.values("model.layers.0.mlp.gate.weight");
  std::fill(router.begin(), router.end(), 0.0F);
  Windows windows;
  windows.add(random_ids(40, 97, 1));
  Pool pool(2);
  const Result got = run_model(source, windows, pool);
  EXPECT_EQ(got.inputs.at("0.expert-in.0"), got.inputs.at("0.mlp"));
  EXPECT_EQ(got.inputs.at("0.expert-in.1"), got.inputs.at("0.mlp"));
  EXPECT_EQ(got.inputs.count("0.expert-in.2"), 0U);
}

TEST(Experts, BitsDependNeitherOnThreadsNorOnBatchSize) {
  MemorySource source = make_tiny({.family = "qwen2_moe", .hidden = 96, .head_dim = 32});
  add_experts(source, 0, {.count = 6, .width = 40, .shared_width = 52, .shared_gate = true});
  add_experts(source, 1, {.count = 6, .width = 40});
  expect_same_bits(source);
}

TEST(Experts, ManyRowsAreTakenInSeveralGroups) {
  MemorySource source = make_tiny({.family = "mixtral", .layers = 1});
  add_experts(source, 0, {});
  source.finish();
  Pool pool(2);
  Windows together;
  Values separate;
  for (unsigned i = 0; i < 5; ++i) {
    const auto ids = random_ids(3000, 97, i);
    together.add(ids);
    Windows alone;
    alone.add(ids);
    const Values states = run_model(source, alone, pool).layers[1];
    separate.insert(separate.end(), states.begin(), states.end());
  }
  EXPECT_EQ(separate, run_model(source, together, pool).layers[1]);
}

TEST(Experts, NonFiniteOutputNamesLayerAndWindow) {
  MemorySource source = make_tiny({.family = "mixtral"});
  add_experts(source, 1, {.count = 2});
  source.finish();
  source.values("model.layers.1.mlp.experts.1.down_proj.weight")[3] =
      std::numeric_limits<float>::infinity();
  Pool pool(2);
  Windows windows;
  windows.add(random_ids(30, 97, 1));
  try {
    static_cast<void>(run_model(source, windows, pool));
    FAIL() << "no error";
  } catch (const Error& error) {
    EXPECT_EQ(error.kind(), ErrorKind::kNumeric);
    EXPECT_NE(std::string(error.what()).find("layer 1"), std::string::npos) << error.what();
    EXPECT_NE(std::string(error.what()).find("window 0"), std::string::npos) << error.what();
  }
}

TEST(Experts, HaveOneGroupPerInput) {
  MemorySource source = make_tiny({.family = "qwen2_moe"});
  add_experts(source, 1, {.count = 3, .shared_width = 44, .shared_gate = true});
  source.finish();
  const std::vector<InputGroup> groups = input_groups(read_arch(source), source);
  ASSERT_EQ(groups.size(), 4U + 3U + 6U + 1U);
  const std::string prefix = "model.layers.1.mlp.";
  EXPECT_EQ(groups[6].role, Role::kMlp);
  EXPECT_EQ(groups[6].tensors,
            (std::vector<std::string>{
                prefix + "gate.weight", prefix + "shared_expert.gate_proj.weight",
                prefix + "shared_expert.up_proj.weight", prefix + "shared_expert_gate.weight"}));
  EXPECT_EQ(groups[9].role, Role::kExpertIn);
  EXPECT_EQ(groups[9].expert, 1);
  EXPECT_EQ(groups[9].tensors, (std::vector<std::string>{prefix + "experts.1.gate_proj.weight",
                                                         prefix + "experts.1.up_proj.weight"}));
  EXPECT_EQ(groups[10].width, 24);
  EXPECT_EQ(groups.back().role, Role::kSharedDown);
  EXPECT_EQ(groups.back().width, 44);
}

TEST(Experts, PlaceIsReadFromTheName) {
  const auto place = expert_place("model.layers.12.mlp.experts.105.up_proj.weight");
  ASSERT_TRUE(place.has_value());
  EXPECT_EQ(place->layer, 12);
  EXPECT_EQ(place->expert, 105);
  EXPECT_FALSE(place->down);
  EXPECT_TRUE(expert_place("model.layers.0.mlp.experts.0.down_proj.weight")->down);
  for (const char* name :
       {"model.layers.0.mlp.down_proj.weight", "model.layers.0.mlp.shared_expert.down_proj.weight",
        "model.layers.0.mlp.experts.0.down_proj.bias",
        "model.layers.0.mlp.experts.down_proj.weight",
        "model.layers.-1.mlp.experts.0.down_proj.weight", "layers.0.mlp.experts.0.up_proj.weight",
        "model.layers.99999999999999999999.mlp.experts.0.up_proj.weight", ""}) {
    EXPECT_FALSE(expert_place(name).has_value()) << name;
  }
}

TEST(DeltaNet, MatchesReference) {
  MemorySource source = make_tiny({.family = "qwen3_next"});
  make_linear(source, 0, {});
  expect_matches_reference(source, 120);
}

TEST(DeltaNet, OfOddSizesMatchesReference) {
  MemorySource source = make_tiny({.family = "qwen3_next"});
  make_linear(source, 0,
              {.key_heads = 1, .value_heads = 3, .key_dim = 7, .value_dim = 33, .taps = 3});
  make_linear(source, 1,
              {.key_heads = 1, .value_heads = 3, .key_dim = 7, .value_dim = 33, .taps = 3});
  expect_matches_reference(source, 70);
}

TEST(DeltaNet, WindowShorterThanTheConvolutionMatchesReference) {
  MemorySource source = make_tiny({.family = "qwen3_next"});
  make_linear(source, 0, {});
  expect_matches_reference(source, 2);
}

TEST(DeltaNet, GatedNormIsPlainBesideGemmaNorms) {
  MemorySource source = make_tiny({.family = "qwen3_5_text"});
  source.arch["norm_style"] = "gemma";
  make_linear(source, 0, {});
  expect_matches_reference(source, 40, 1e-4);
}

TEST(DeltaNet, BitsDependNeitherOnThreadsNorOnBatchSize) {
  MemorySource source = make_tiny({.family = "qwen3_next", .hidden = 96, .head_dim = 32});
  make_linear(source, 0, {.value_dim = 40});
  expect_same_bits(source);
}

TEST(DeltaNet, InputsAreGroupedLikeThoseOfAttention) {
  MemorySource source = make_tiny({.family = "qwen3_next"});
  make_linear(source, 1, {});
  source.finish();
  const std::vector<InputGroup> groups = input_groups(read_arch(source), source);
  EXPECT_EQ(groups[4].role, Role::kIn);
  EXPECT_EQ(groups[4].tensors.size(), 4U);
  EXPECT_EQ(groups[5].width, 80);
  EXPECT_EQ(groups[5].tensors,
            (std::vector<std::string>{"model.layers.1.linear_attn.out_proj.weight"}));
}

/// Random values in place of the query projection, with the gate of each head behind it.
void add_output_gate(MemorySource& source) {
  for (std::int64_t layer = 0; layer < 2; ++layer) {
    const std::string name = layer_tensor(layer, "self_attn.q_proj.weight");
    std::vector<float> values = source.values(name);
    const std::vector<float> other = source.values(layer_tensor(1 - layer, "mlp.gate_proj.weight"));
    const std::size_t half = values.size();
    for (std::size_t i = 0; i < half; ++i) values.push_back(other[i % other.size()]);
    source.set(name, {192, 40}, values);
  }
}

TEST(OutputGate, MatchesReference) {
  MemorySource source = make_tiny({.family = "qwen3_next", .qk_norm = true});
  source.arch["partial_rotary_factor"] = 0.25;
  add_output_gate(source);
  expect_matches_reference(source, 100);
}

TEST(OutputGate, OfOneLayerOnlyIsAnError) {
  MemorySource source = make_tiny({.family = "qwen3_next"});
  source.set("model.layers.1.self_attn.q_proj.weight", {192, 40}, std::vector<float>(192 * 40));
  source.finish();
  EXPECT_THROW(static_cast<void>(read_arch(source)), Error);
}

TEST(Sinks, MatchReferenceWithAndWithoutWindow) {
  MemorySource source = make_tiny({});
  source.arch["sliding_window"] = 30;
  source.arch["layer_types"] = {"FullAttention", "SlidingAttention"};
  source.set("model.layers.0.self_attn.sinks", {4}, {0.5F, -3.0F, 4.0F, 0.0F});
  source.set("model.layers.1.self_attn.sinks", {4}, {-0.5F, 1.0F, 9.0F, -40.0F});
  expect_matches_reference(source, 150);
}

}  // namespace
}  // namespace cortiq::model::test
