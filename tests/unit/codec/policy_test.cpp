#include "cortiq/codec/policy.hpp"

#include <gtest/gtest.h>

#include "cortiq/support/error.hpp"

namespace cortiq::codec {
namespace {

constexpr const char* kGate = "model.layers.3.mlp.gate_proj.weight";
constexpr const char* kDown = "model.layers.3.mlp.down_proj.weight";
constexpr const char* kExpertUp = "model.layers.3.mlp.experts.5.up_proj.weight";
constexpr const char* kSharedGate = "model.layers.3.mlp.shared_expert.gate_proj.weight";
constexpr const char* kQuery = "model.layers.0.self_attn.q_proj.weight";
constexpr const char* kEmbed = "model.embed_tokens.weight";

ModelTraits traits(const char* arch, bool moe = false, bool delta = false) {
  ModelTraits model;
  model.arch_name = arch;
  model.has_moe = moe;
  model.gated_delta_net = delta;
  return model;
}

TEST(Glob, StarsMatchAnyRunIncludingDots) {
  EXPECT_TRUE(glob_match("model.*.weight", "model.layers.0.mlp.down_proj.weight"));
  EXPECT_TRUE(glob_match("a*b*c", "abbcbc"));
  EXPECT_FALSE(glob_match("a*b*c", "abbcb"));
  EXPECT_TRUE(glob_match("**", ""));
  EXPECT_FALSE(glob_match("Model.*", "model.x"));
  EXPECT_FALSE(glob_match("a?c", "abc"));
}

TEST(Glob, ManyStarsStayFast) {
  const std::string name(5000, 'a');
  EXPECT_FALSE(glob_match("*a*a*a*a*a*a*a*a*a*a*b", name));
}

TEST(Profile, TwoBitsOnlyWhereTheFeedForwardGates) {
  const ModelTraits dense = traits("llama");
  EXPECT_EQ(profile_codec(Codec::kQ2tp, kGate, dense), Codec::kQ2tp);
  EXPECT_EQ(profile_codec(Codec::kQ2tp, kDown, dense), Codec::kQ4tp);
  EXPECT_EQ(profile_codec(Codec::kQ2tp, kQuery, dense), Codec::kQ4tp);
  const ModelTraits moe = traits("qwen3_moe", true);
  EXPECT_EQ(profile_codec(Codec::kQ2tp, kGate, moe), Codec::kQ4tp);
  EXPECT_EQ(profile_codec(Codec::kQ2tp, kExpertUp, moe), Codec::kQ2tp);
  EXPECT_EQ(profile_codec(Codec::kQ2tp, kSharedGate, moe), Codec::kQ2tp);
}

TEST(Profile, DeltaNetExpertModelsKeepTheirSkeletonAtEightBits) {
  const ModelTraits model = traits("Qwen3_5_moe", true, true);
  EXPECT_EQ(profile_codec(Codec::kQ4tp, kQuery, model), Codec::kQ82f);
  EXPECT_EQ(profile_codec(Codec::kQ4tp, kEmbed, model), Codec::kQ82f);
  EXPECT_EQ(profile_codec(Codec::kQ2tp, kExpertUp, model), Codec::kQ2tp);
  EXPECT_EQ(profile_codec(Codec::kQ2tp, kSharedGate, model), Codec::kQ2tp);
  EXPECT_EQ(profile_codec(Codec::kQ8Row, kQuery, model), Codec::kQ8Row);
  EXPECT_EQ(profile_codec(Codec::kQ4tp, kQuery, traits("qwen3_5", false, true)), Codec::kQ4tp);
  EXPECT_EQ(profile_codec(Codec::kQ4tp, kQuery, traits("qwen3_next", true, true)), Codec::kQ4tp);
  EXPECT_EQ(profile_codec(Codec::kQ4tp, kEmbed, traits("minicpmv4_7", false, true)), Codec::kQ82f);
  EXPECT_EQ(profile_codec(Codec::kQ4tp, kQuery, traits("minicpmv4_7", false, true)), Codec::kQ4tp);
}

TEST(Profile, ExactArchitectureNamesDoNotMatchOtherCase) {
  EXPECT_EQ(profile_codec(Codec::kQ4tp, kQuery, traits("mimo_v2")), Codec::kQ82f);
  EXPECT_EQ(profile_codec(Codec::kQ4tp, kQuery, traits("MIMO_V2")), Codec::kQ4tp);
  EXPECT_EQ(profile_codec(Codec::kQ4tp, kQuery, traits("Mellum")), Codec::kQ82f);
  EXPECT_EQ(profile_codec(Codec::kQ4tp, kEmbed, traits("GRANITE")), Codec::kQ82f);
}

TEST(Profile, ExperimentalFourthGenerationKeepsAttentionAtEightBits) {
  ModelTraits model = traits("qwen4");
  model.qwen4_exp = true;
  EXPECT_EQ(profile_codec(Codec::kQ4tp, kQuery, model), Codec::kQ82f);
  EXPECT_EQ(profile_codec(Codec::kQ4tp, "model.layers.0.ple.key_proj.weight", model), Codec::kQ82f);
  EXPECT_EQ(profile_codec(Codec::kQ4tp, "model.mtp.fc_hidden.weight", model), Codec::kQ82f);
  EXPECT_EQ(profile_codec(Codec::kQ4tp, kDown, model), Codec::kQ4tp);
}

TEST(Names, FloatsThatStayAreRecognised) {
  EXPECT_TRUE(keeps_f32("model.layers.0.self_attn.sinks"));
  EXPECT_TRUE(keeps_f16("model.layers.0.mlp.gate.weight"));
  EXPECT_TRUE(keeps_f16("x.hyper_connection.y.block_inject_weight"));
  EXPECT_FALSE(keeps_f16("x.block_inject_weight"));
  EXPECT_TRUE(keeps_float("vis.blocks.0.weight"));
  EXPECT_FALSE(keeps_float("model.layers.0.linear_attn.conv1d.weight"));
  EXPECT_FALSE(keeps_float(kGate));
}

TEST(Override, SplitsAtTheLastEqualsSignAndTrims) {
  const TensorOverride parsed = parse_override("  a=b* = Q8_2F ");
  EXPECT_EQ(parsed.pattern, "a=b*");
  EXPECT_EQ(parsed.codec, Codec::kQ82f);
}

TEST(Override, ErrorsNameTheTextAndTheRemedy) {
  const std::pair<const char*, const char*> cases[] = {
      {"abc", "PATTERN=CODEC"}, {" =q8", "empty pattern"}, {"x=zz", "q8_2f"},
      {"x=fp4", "mxfp4"},       {"x=q2tp-affine", "q2tp"}, {"x=", "unknown codec"}};
  for (const auto& [text, part] : cases) {
    try {
      static_cast<void>(parse_override(text));
      ADD_FAILURE() << text;
    } catch (const Error& error) {
      EXPECT_EQ(error.kind(), ErrorKind::kUsage);
      EXPECT_NE(std::string(error.what()).find(part), std::string::npos) << error.what();
      EXPECT_NE(std::string(error.what()).find(text), std::string::npos) << error.what();
    }
  }
}

TEST(Override, FirstMatchWins) {
  const std::vector<TensorOverride> list = {parse_override("*.down_proj.*=q8"),
                                            parse_override("model.*=q4tp")};
  EXPECT_EQ(override_codec(list, kDown), Codec::kQ8Row);
  EXPECT_EQ(override_codec(list, kGate), Codec::kQ4tp);
  EXPECT_EQ(override_codec(list, "lm_head.weight"), std::nullopt);
}

}  // namespace
}  // namespace cortiq::codec
