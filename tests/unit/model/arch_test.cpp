// Reading the architecture record, and the messages for what is wrong in it.
#include "cortiq/model/arch.hpp"

#include <gtest/gtest.h>

#include <cmath>
#include <functional>

#include "cortiq/model/roles.hpp"
#include "tiny_model.hpp"

namespace cortiq::model::test {
namespace {

/// The message of the error that reading throws after `change`.
std::string message(ErrorKind kind, const std::function<void(MemorySource&)>& change) {
  MemorySource source = make_tiny({});
  change(source);
  source.finish();
  try {
    static_cast<void>(read_arch(source));
  } catch (const Error& error) {
    EXPECT_EQ(error.kind(), kind) << error.what();
    return error.what();
  }
  ADD_FAILURE() << "no error";
  return {};
}

void expect_message(ErrorKind kind, const std::string& part,
                    const std::function<void(MemorySource&)>& change) {
  const std::string text = message(kind, change);
  EXPECT_NE(text.find(part), std::string::npos) << text;
}

TEST(ReadArch, ReadsNumbersAndDefaults) {
  MemorySource source = make_tiny({.family = "mistral", .tied = false});
  source.finish();
  const Arch arch = read_arch(source);
  EXPECT_EQ(arch.name, "mistral");
  EXPECT_EQ(arch.hidden, 40);
  EXPECT_EQ(arch.intermediate, 72);
  EXPECT_EQ(arch.rotary_dim, 24);
  EXPECT_EQ(arch.v_head_dim, 24);
  EXPECT_EQ(arch.norm_eps, 1e-5);
  EXPECT_DOUBLE_EQ(arch.attention_scale, 1 / std::sqrt(24.0));
  EXPECT_EQ(arch.activation, Activation::kSilu);
  EXPECT_FALSE(arch.tied_head);
  EXPECT_FALSE(arch.has_local_rope);
  EXPECT_EQ(arch.rope_local_theta, arch.rope_theta);
}

TEST(ReadArch, WindowPatternTagsLayers) {
  MemorySource source = make_tiny({.layers = 4});
  source.arch["sliding_window"] = 16;
  source.arch["sliding_window_pattern"] = 2;
  source.finish();
  const std::vector<LayerType> want = {LayerType::kSliding, LayerType::kFull, LayerType::kSliding,
                                       LayerType::kFull};
  EXPECT_EQ(read_arch(source).layer_types, want);
}

TEST(ReadArch, WindowWithoutPatternOrTagsIsNotUsed) {
  MemorySource source = make_tiny({});
  source.arch["sliding_window"] = 16;
  source.finish();
  EXPECT_EQ(read_arch(source).layer_types,
            (std::vector<LayerType>{LayerType::kFull, LayerType::kFull}));
}

TEST(ReadArch, FamiliesWithoutForwardAreRefusedByName) {
  for (const std::string family : {"deepseek_v3", "gemma4", "gpt_oss"}) {
    expect_message(ErrorKind::kUnsupported, family,
                   [&](MemorySource& s) { s.arch["arch_name"] = family; });
  }
}

TEST(ReadArch, RecordsThatChangeTheForwardAreRefused) {
  expect_message(ErrorKind::kUnsupported, "arch.mla", [](MemorySource& s) {
    s.arch["mla"] = {{"kv_lora_rank", 2}};
  });
  expect_message(ErrorKind::kUnsupported, "num_loops",
                 [](MemorySource& s) { s.arch["num_loops"] = 2; });
  expect_message(ErrorKind::kUnsupported, "ShortConv", [](MemorySource& s) {
    s.arch["layer_types"] = {"FullAttention", "ShortConv"};
  });
  expect_message(ErrorKind::kUnsupported, "hidden_act",
                 [](MemorySource& s) { s.arch["hidden_act"] = "relu"; });
  expect_message(ErrorKind::kUnsupported, "router_resonance", [](MemorySource& s) {
    add_experts(s, 0, {});
    s.arch["moe"]["router_resonance"] = true;
  });
  expect_message(ErrorKind::kUnsupported, "'phase_delta'", [](MemorySource& s) {
    make_linear(s, 0, {});
    s.arch["linear_core"]["kind"] = "phase_delta";
  });
}

TEST(ReadArch, TensorsThatChangeTheForwardAreRefused) {
  expect_message(ErrorKind::kUnsupported, "self_attn.g_proj", [](MemorySource& s) {
    s.set("model.layers.1.self_attn.g_proj.weight", {4, 40}, std::vector<float>(160));
  });
}

TEST(ReadArch, CountsExpertsByTheirTensors) {
  MemorySource source = make_tiny({.family = "qwen2_moe"});
  add_experts(source, 1, {.count = 4, .width = 24, .shared_width = 80});
  source.arch["moe"]["num_experts"] = 60;  // before pruning
  source.finish();
  const Arch arch = read_arch(source);
  EXPECT_EQ(arch.layer_experts, (std::vector<std::int64_t>{0, 4}));
  EXPECT_EQ(arch.experts->width, 24);
  EXPECT_EQ(arch.intermediate, 80);
}

TEST(ReadArch, ExpertsThatDoNotFitTheRouterAreNamed) {
  expect_message(ErrorKind::kInput,
                 "mlp.gate.weight has shape [5, 40]; the header asks for [4, 40]",
                 [](MemorySource& s) {
                   add_experts(s, 0, {});
                   s.erase("model.layers.0.mlp.experts.4.gate_proj.weight");
                 });
  expect_message(ErrorKind::kInput, "top_k is 6",
                 [](MemorySource& s) { add_experts(s, 0, {.top_k = 6}); });
  expect_message(ErrorKind::kInput, "no record arch.moe", [](MemorySource& s) {
    add_experts(s, 0, {});
    s.arch.erase("moe");
  });
  expect_message(ErrorKind::kInput, "experts.2.up_proj.weight is missing", [](MemorySource& s) {
    add_experts(s, 0, {});
    s.erase("model.layers.0.mlp.experts.2.up_proj.weight");
  });
}

TEST(ReadArch, LinearAttentionNeedsItsNumbersAndTensors) {
  expect_message(ErrorKind::kInput, "4 linear value heads", [](MemorySource& s) {
    make_linear(s, 0, {});
    s.arch["linear_num_key_heads"] = 3;
  });
  expect_message(ErrorKind::kInput, "arch.linear_key_head_dim is missing", [](MemorySource& s) {
    make_linear(s, 0, {});
    s.arch.erase("linear_key_head_dim");
  });
  expect_message(ErrorKind::kInput, "linear_attn.A_log is missing", [](MemorySource& s) {
    make_linear(s, 0, {});
    s.erase("model.layers.0.linear_attn.A_log");
  });
}

TEST(ReadArch, MissingKeyAndWrongTypeAreNamed) {
  expect_message(ErrorKind::kInput, "arch.hidden_size is missing",
                 [](MemorySource& s) { s.arch.erase("hidden_size"); });
  expect_message(ErrorKind::kInput, "arch.num_layers is 2.0",
                 [](MemorySource& s) { s.arch["num_layers"] = 2.0; });
  expect_message(ErrorKind::kInput, "arch.head_dim is -4",
                 [](MemorySource& s) { s.arch["head_dim"] = -4; });
}

TEST(ReadArch, LayerTypesMustMatchLayersAndWindow) {
  expect_message(ErrorKind::kInput, "1 entries for 2 layers",
                 [](MemorySource& s) { s.arch["layer_types"] = {"FullAttention"}; });
  expect_message(ErrorKind::kInput, "sliding_window is missing", [](MemorySource& s) {
    s.arch["layer_types"] = {"FullAttention", "SlidingAttention"};
  });
}

TEST(ReadArch, HeadsMustShareKeysEvenly) {
  expect_message(ErrorKind::kInput, "4 attention heads",
                 [](MemorySource& s) { s.arch["num_kv_heads"] = 3; });
}

TEST(ReadArch, FrequencyFactorsMustFitTheRotation) {
  expect_message(ErrorKind::kInput, "rope_freq_factors has 3 values; expected 12",
                 [](MemorySource& s) {
                   s.arch["rope_freq_factors"] = {1.0, 2.0, 3.0};
                 });
}

TEST(ReadArch, MissingTensorIsNamed) {
  expect_message(ErrorKind::kInput, "model.layers.1.mlp.up_proj.weight is missing",
                 [](MemorySource& s) { s.erase("model.layers.1.mlp.up_proj.weight"); });
}

TEST(ReadArch, WrongShapeIsNamedWithBothShapes) {
  expect_message(ErrorKind::kInput, "[96, 41]", [](MemorySource& s) {
    s.set("model.layers.0.self_attn.q_proj.weight", {96, 41}, std::vector<float>(96 * 41));
  });
}

TEST(ReadArch, PartOfTheBiasesIsAnError) {
  expect_message(ErrorKind::kInput, "self_attn.v_proj.bias is missing", [](MemorySource& s) {
    s.set("model.layers.0.self_attn.q_proj.bias", {96}, std::vector<float>(96));
    s.set("model.layers.0.self_attn.k_proj.bias", {48}, std::vector<float>(48));
  });
  expect_message(ErrorKind::kInput, "layer 1 and layer 0 differ", [](MemorySource& s) {
    s.set("model.layers.1.self_attn.q_norm.weight", {24}, std::vector<float>(24));
    s.set("model.layers.1.self_attn.k_norm.weight", {24}, std::vector<float>(24));
  });
}

TEST(ReadArch, ModelWithoutHeadIsAnError) {
  expect_message(ErrorKind::kInput, "lm_head.weight is missing",
                 [](MemorySource& s) { s.arch["tie_word_embeddings"] = false; });
}

TEST(InputGroups, ListRolesInExecutionOrder) {
  MemorySource source = make_tiny({.tied = false});
  source.finish();
  const std::vector<InputGroup> groups = input_groups(read_arch(source), source);
  ASSERT_EQ(groups.size(), 9U);
  EXPECT_EQ(groups[0].role, Role::kIn);
  EXPECT_EQ(groups[0].tensors.size(), 3U);
  EXPECT_EQ(groups[1].role, Role::kMixOut);
  EXPECT_EQ(groups[1].width, 96);
  EXPECT_EQ(groups[2].tensors, (std::vector<std::string>{"model.layers.0.mlp.gate_proj.weight",
                                                         "model.layers.0.mlp.up_proj.weight"}));
  EXPECT_EQ(groups[7].width, 72);
  EXPECT_EQ(groups[8].role, Role::kHead);
  EXPECT_EQ(groups[8].layer, 2);
}

TEST(InputGroups, TiedHeadHasNoGroup) {
  MemorySource source = make_tiny({});
  source.finish();
  EXPECT_EQ(input_groups(read_arch(source), source).size(), 8U);
}

}  // namespace
}  // namespace cortiq::model::test
