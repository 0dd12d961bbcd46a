// The order of cli.md section 3: what is copied, overrides, profile, skip and include lists.
#include "cortiq/pipeline/selection.hpp"

#include <gtest/gtest.h>

#include "fake_source.hpp"

namespace cortiq::pipeline {
namespace {

using cmf::DType;
using codec::Codec;
using test::FakeSource;

constexpr const char* kQ = "model.layers.0.self_attn.q_proj.weight";
constexpr const char* kGate = "model.layers.0.mlp.gate_proj.weight";
constexpr const char* kDown = "model.layers.0.mlp.down_proj.weight";
constexpr const char* kEmbed = "model.embed_tokens.weight";
constexpr const char* kHead = "lm_head.weight";
constexpr const char* kNorm = "model.norm.weight";

FakeSource dense_model() {
  FakeSource source(cmf::Json{{"arch_name", "llama"}});
  source.add(kEmbed, {64, 32}).add(kQ, {32, 32}).add(kGate, {64, 32}).add(kDown, {32, 64});
  source.add(kHead, {64, 32}).add(kNorm, {32});
  return source;
}

TensorChoice choice_of(const FakeSource& source, const SelectionOptions& options,
                       std::string_view name) {
  return select_tensors(source, options).at(source.find(name).value());
}

ErrorKind refusal(const FakeSource& source, const SelectionOptions& options) {
  try {
    (void)select_tensors(source, options);
  } catch (const Error& error) {
    return error.kind();
  }
  ADD_FAILURE() << "no error";
  return ErrorKind::kIo;
}

TEST(Selection, MatricesOfLayersAreCandidatesByDefault) {
  const FakeSource source = dense_model();
  for (const char* name : {kQ, kGate, kDown}) {
    const TensorChoice choice = choice_of(source, {}, name);
    EXPECT_EQ(choice.action, Action::kGptq) << name;
    EXPECT_EQ(choice.codec, Codec::kQ4tp) << name;
    EXPECT_EQ(choice.reason, "") << name;
  }
}

TEST(Selection, ACandidateWhoseWidthDoesNotFitIsMissed) {
  FakeSource source = dense_model();
  source.add("model.layers.1.mlp.down_proj.weight", {32, 80});
  source.add("model.layers.2.mlp.down_proj.weight", {32, 80});
  SelectionOptions options;
  options.overrides = {codec::parse_override("*layers.2*=q4tp")};
  const TensorChoice copied = choice_of(source, options, "model.layers.1.mlp.down_proj.weight");
  EXPECT_EQ(copied.action, Action::kCopy);
  EXPECT_TRUE(copied.missed);
  const TensorChoice rounded = choice_of(source, options, "model.layers.2.mlp.down_proj.weight");
  EXPECT_EQ(rounded.action, Action::kRound);
  EXPECT_TRUE(rounded.missed);
  EXPECT_EQ(rounded.reason, "width is not a multiple of 32");
  for (const char* name : {kQ, kEmbed, kNorm}) EXPECT_FALSE(choice_of(source, options, name).missed);
  options.skip = {"layers.1", "layers.2"};
  EXPECT_FALSE(choice_of(source, options, "model.layers.1.mlp.down_proj.weight").missed);
  options.gptq = false;
  EXPECT_FALSE(choice_of(source, options, "model.layers.2.mlp.down_proj.weight").missed);
}

TEST(Selection, CopiesWithItsReason) {
  FakeSource source = dense_model();
  source.add("model.layers.0.conv.weight", {4, 4, 32});
  source.add("model.layers.0.mlp.gate.weight", {8, 32});
  source.add("vis.blocks.0.attn.weight", {32, 32});
  source.add("model.layers.0.packed.weight", {32, 32}, DType::kQ4tp);
  source.add("model.layers.0.narrow.weight", {32, 33});
  source.add("model.layers.0.small.weight", {4, 4});
  source.add("skill.0.delta.weight", {32, 32});
  const std::pair<const char*, const char*> expected[] = {
      {kNorm, "not a matrix"},
      {"model.layers.0.conv.weight", "not a matrix"},
      {"model.layers.0.mlp.gate.weight", "kept in float by name"},
      {"vis.blocks.0.attn.weight", "kept in float by name"},
      {"model.layers.0.packed.weight", "already q4tp"},
      {"model.layers.0.narrow.weight", "width is not a multiple of 32"},
      {"model.layers.0.small.weight", "fewer than 32 weights"},
      {"skill.0.delta.weight", "belongs to a skill or router"}};
  for (const auto& [name, reason] : expected) {
    const TensorChoice choice = choice_of(source, {}, name);
    EXPECT_EQ(choice.action, Action::kCopy) << name;
    EXPECT_EQ(choice.reason, reason) << name;
  }
}

TEST(Selection, HalfTypesAreFloatSources) {
  FakeSource source;
  source.add("a.weight", {32, 32}, DType::kF16).add("b.weight", {32, 32}, DType::kBf16);
  EXPECT_EQ(choice_of(source, {}, "a.weight").action, Action::kGptq);
  EXPECT_EQ(choice_of(source, {}, "b.weight").action, Action::kGptq);
}

TEST(Selection, OverridesComeBeforeTheProfileAndTheFirstWins) {
  const FakeSource source = dense_model();
  SelectionOptions options;
  options.overrides = {{"*down_proj*", Codec::kQ8Row}, {"*proj*", Codec::kQ2tp}};
  EXPECT_EQ(choice_of(source, options, kDown).codec, Codec::kQ8Row);
  EXPECT_EQ(choice_of(source, options, kDown).action, Action::kRound);
  EXPECT_EQ(choice_of(source, options, kDown).reason, "codec is rounded only");
  EXPECT_EQ(choice_of(source, options, kQ).codec, Codec::kQ2tp);
  EXPECT_EQ(choice_of(source, options, kQ).action, Action::kGptq);
}

TEST(Selection, OverrideReachesTheEmbeddingButNotFloatsByName) {
  FakeSource source = dense_model();
  source.add("model.layers.0.mlp.gate.weight", {8, 32});
  SelectionOptions options;
  options.overrides = {{"*", Codec::kQ8Row}};
  EXPECT_EQ(choice_of(source, options, kEmbed).codec, Codec::kQ8Row);
  EXPECT_EQ(choice_of(source, options, kNorm).action, Action::kCopy);
  EXPECT_EQ(choice_of(source, options, "model.layers.0.mlp.gate.weight").action, Action::kCopy);
}

TEST(Selection, EmbeddingsOptionRulesTheVocabularyEdges) {
  const FakeSource source = dense_model();
  SelectionOptions options;
  const std::pair<Embeddings, Codec> expected[] = {{Embeddings::kQ82f, Codec::kQ82f},
                                                   {Embeddings::kF16, Codec::kF16},
                                                   {Embeddings::kProfile, Codec::kQ4tp}};
  for (const auto& [embeddings, codec] : expected) {
    options.embeddings = embeddings;
    for (const char* name : {kEmbed, kHead}) {
      const TensorChoice choice = choice_of(source, options, name);
      EXPECT_EQ(choice.action, Action::kRound) << name;
      EXPECT_EQ(choice.codec, codec) << name;
    }
  }
  EXPECT_EQ(choice_of(source, options, kHead).reason, "in the skip list");
}

TEST(Selection, HeadIsACandidateWithoutTheSkipList) {
  const FakeSource source = dense_model();
  SelectionOptions options;
  options.embeddings = Embeddings::kProfile;
  options.skip = {"embed_tokens"};
  EXPECT_EQ(choice_of(source, options, kHead).action, Action::kGptq);
  EXPECT_EQ(choice_of(source, options, kEmbed).action, Action::kRound);
}

TEST(Selection, SkipTakesSubstringsAndIncludeGlobs) {
  const FakeSource source = dense_model();
  SelectionOptions options;
  options.skip = {"gate_pr"};
  options.include = {"*.mlp.*"};
  EXPECT_EQ(choice_of(source, options, kGate).reason, "in the skip list");
  EXPECT_EQ(choice_of(source, options, kQ).reason, "not in --include");
  EXPECT_EQ(choice_of(source, options, kQ).action, Action::kRound);
  EXPECT_EQ(choice_of(source, options, kQ).codec, Codec::kQ4tp);
  EXPECT_EQ(choice_of(source, options, kDown).action, Action::kGptq);
}

TEST(Selection, TwoBitProfileIsForGateAndUpOfDenseModels) {
  SelectionOptions options;
  options.profile = Codec::kQ2tp;
  const FakeSource source = dense_model();
  EXPECT_EQ(choice_of(source, options, kGate).codec, Codec::kQ2tp);
  EXPECT_EQ(choice_of(source, options, kDown).codec, Codec::kQ4tp);
  EXPECT_EQ(choice_of(source, options, kQ).codec, Codec::kQ4tp);
  EXPECT_EQ(choice_of(source, options, kEmbed).codec, Codec::kQ82f);
}

TEST(Selection, TwoBitProfileOfAnExpertModelIsForItsExperts) {
  FakeSource source(cmf::Json{{"arch_name", "qwen3_moe"}, {"moe", {{"num_experts", 2}}}});
  source.add(kGate, {64, 32}).add("model.layers.1.mlp.experts.0.up_proj.weight", {64, 32});
  source.add("model.layers.1.mlp.experts.0.down_proj.weight", {32, 64});
  SelectionOptions options;
  options.profile = Codec::kQ2tp;
  EXPECT_EQ(choice_of(source, options, kGate).codec, Codec::kQ4tp);
  EXPECT_EQ(choice_of(source, options, "model.layers.1.mlp.experts.0.up_proj.weight").codec,
            Codec::kQ2tp);
  EXPECT_EQ(choice_of(source, options, "model.layers.1.mlp.experts.0.down_proj.weight").codec,
            Codec::kQ4tp);
}

TEST(Selection, WidthWithoutGroupsFallsBackOnlyWhenRoundingOrNamed) {
  FakeSource source;
  source.add("narrow.weight", {32, 40});
  SelectionOptions options;
  EXPECT_EQ(choice_of(source, options, "narrow.weight").action, Action::kCopy);
  options.gptq = false;
  EXPECT_EQ(choice_of(source, options, "narrow.weight").action, Action::kRound);
  EXPECT_EQ(choice_of(source, options, "narrow.weight").codec, Codec::kQ82f);
  options.gptq = true;
  options.overrides = {{"narrow*", Codec::kQ4tp}};
  EXPECT_EQ(choice_of(source, options, "narrow.weight").action, Action::kRound);
  EXPECT_EQ(choice_of(source, options, "narrow.weight").codec, Codec::kQ82f);
}

TEST(Selection, RoundingHasNoCandidates) {
  SelectionOptions options;
  options.gptq = false;
  for (const TensorChoice& choice : select_tensors(dense_model(), options)) {
    EXPECT_NE(choice.action, Action::kGptq);
  }
}

TEST(Selection, RuleOverridesComeBeforeTheRule) {
  SelectionOptions options;
  options.profile = Codec::kQ2tp;
  options.rule_overrides = {{"*gate_proj*", gptq::Q2tpRule::kCortiq}};
  EXPECT_EQ(choice_of(dense_model(), options, kGate).rule, gptq::Q2tpRule::kCortiq);
  EXPECT_EQ(choice_of(dense_model(), options, kDown).rule, gptq::Q2tpRule::kPlaced);
}

TEST(Selection, PatternsThatMatchNothingAreUsageErrors) {
  const FakeSource source = dense_model();
  SelectionOptions options;
  options.overrides = {{"*no_such*", Codec::kQ8Row}};
  EXPECT_EQ(refusal(source, options), ErrorKind::kUsage);
  options = {};
  options.include = {"q_proj"};  // a glob matches whole names
  EXPECT_EQ(refusal(source, options), ErrorKind::kUsage);
  options = {};
  options.rule_overrides = {{"*no_such*", gptq::Q2tpRule::kCortiq}};
  EXPECT_EQ(refusal(source, options), ErrorKind::kUsage);
  options = {};
  options.skip = {"no_such"};
  EXPECT_NO_THROW((void)select_tensors(source, options));
  options.skip_given = true;
  EXPECT_EQ(refusal(source, options), ErrorKind::kUsage);
}

TEST(Selection, OverrideOfTensorsThatCannotBeEncodedIsAUsageError) {
  SelectionOptions options;
  options.overrides = {{kNorm, Codec::kQ8Row}};
  EXPECT_EQ(refusal(dense_model(), options), ErrorKind::kUsage);
  options.overrides = {{"*norm*", Codec::kQ8Row}};
  EXPECT_EQ(refusal(dense_model(), options), ErrorKind::kUsage);
}

TEST(Selection, RulesParse) {
  EXPECT_EQ(parse_rule("placed"), gptq::Q2tpRule::kPlaced);
  EXPECT_EQ(parse_rule("full"), gptq::Q2tpRule::kPlaced);
  EXPECT_EQ(parse_rule("cortiq"), gptq::Q2tpRule::kCortiq);
  EXPECT_EQ(parse_rule("absmax"), gptq::Q2tpRule::kCortiq);
  EXPECT_THROW((void)parse_rule("Placed"), Error);
  const RuleOverride rule = parse_rule_override("a=b*=cortiq");
  EXPECT_EQ(rule.pattern, "a=b*");
  EXPECT_EQ(rule.rule, gptq::Q2tpRule::kCortiq);
  for (const char* text : {"", "cortiq", "=cortiq", "a=", "a=other"}) {
    EXPECT_THROW((void)parse_rule_override(text), Error) << text;
  }
}

}  // namespace
}  // namespace cortiq::pipeline
