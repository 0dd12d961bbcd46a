// Which options change nothing in a run of a model.
#include "../../../src/pipeline/idle_options.hpp"

#include <gtest/gtest.h>

#include "fake_source.hpp"

namespace cortiq::pipeline {
namespace {

using codec::Codec;
using test::FakeSource;

FakeSource dense() {
  FakeSource source(cmf::Json{{"arch_name", "llama"}});
  source.add("model.embed_tokens.weight", {40, 64});
  source.add("model.layers.0.mlp.gate_proj.weight", {96, 64});
  source.add("model.layers.0.mlp.down_proj.weight", {64, 96});
  return source;
}

/// All matrices by GPTQ to this codec, the embedding rounded to q8_2f.
Plan plan_of(const FakeSource& source, Codec codec) {
  Plan plan;
  for (const cmf::TensorInfo& info : source.tensors()) {
    const bool edge = info.name.find("embed") != std::string::npos;
    plan.choices.push_back({edge ? Action::kRound : Action::kGptq, edge ? Codec::kQ82f : codec,
                            gptq::Q2tpRule::kPlaced, {}, {}});
  }
  plan.groups.emplace_back();
  return plan;
}

const std::vector<std::string> kAll{
    "--min-rows", "--moe-prior", "--q2tp-rule",      "--q2tp-rule-tensor", "--q2tp-debias",
    "--ladder",   "--q4tp-debias", "--keep",         "--col-mask",         "--down-keep",
    "--embeddings", "--no-row-rescale", "--vram-gb", "--report",           "--ppl",
    "--calib",    "--tokens",    "--lambda",         "--output"};

/// Names of the options that are warned of when all are given.
std::vector<std::string> idle(const FakeSource& source, const Plan& plan, const RunFacts& facts,
                              bool dry_run = false) {
  GptqOptions options;
  options.given = kAll;
  options.dry_run = dry_run;
  std::vector<std::string> names;
  for (const std::string& warning : idle_options(options, plan, source, facts)) {
    EXPECT_NE(warning.find(": has no effect: "), std::string::npos) << warning;
    names.push_back(warning.substr(0, warning.find(':')));
  }
  return names;
}

TEST(IdleOptions, depend_on_the_codecs_that_tensors_get) {
  const FakeSource source = dense();
  const std::vector<std::string> moe{"--min-rows", "--moe-prior"};
  const std::vector<std::string> q2tp{"--q2tp-rule", "--q2tp-rule-tensor", "--q2tp-debias"};
  const std::vector<std::string> one_bit{"--keep", "--col-mask", "--down-keep"};
  const auto join = [](std::initializer_list<std::vector<std::string>> lists) {
    std::vector<std::string> all;
    for (const auto& list : lists) all.insert(all.end(), list.begin(), list.end());
    return all;
  };
  const RunFacts device{true, false};
  EXPECT_EQ(idle(source, plan_of(source, Codec::kQ4tp), device),
            join({moe, q2tp, one_bit, {"--no-row-rescale"}}));
  EXPECT_EQ(idle(source, plan_of(source, Codec::kQ2tp), device),
            join({moe, {"--q4tp-debias"}, one_bit, {"--no-row-rescale"}}));
  EXPECT_EQ(idle(source, plan_of(source, Codec::kQ1s), device),
            join({moe, q2tp, {"--ladder", "--q4tp-debias", "--no-row-rescale"}}));
  EXPECT_EQ(idle(source, plan_of(source, Codec::kQ1t), device),
            join({moe, q2tp, {"--ladder", "--q4tp-debias"}}));
}

TEST(IdleOptions, depend_on_the_model_and_the_run) {
  FakeSource source(cmf::Json{{"arch_name", "llama"}});
  source.add("model.layers.0.mlp.experts.0.up_proj.weight", {96, 64});
  Plan plan = plan_of(source, Codec::kQ1t);
  plan.groups.front().place = model::ExpertPlace{};
  plan.choices.push_back({Action::kGptq, Codec::kQ2tp, gptq::Q2tpRule::kPlaced, {}, {}});
  plan.choices.push_back({Action::kGptq, Codec::kQ4tp, gptq::Q2tpRule::kPlaced, {}, {}});
  source.add("model.layers.0.mlp.experts.0.gate_proj.weight", {96, 64});
  source.add("model.layers.0.mlp.experts.1.gate_proj.weight", {96, 64});
  EXPECT_EQ(idle(source, plan, {true, false}),
            (std::vector<std::string>{"--down-keep", "--embeddings"}));
  EXPECT_EQ(idle(source, plan, {false, true}, true),
            (std::vector<std::string>{"--down-keep", "--embeddings", "--vram-gb", "--report",
                                      "--ppl", "--calib", "--tokens"}));
}

TEST(IdleOptions, a_head_that_is_not_skipped_but_rounded_is_named_with_the_option_that_helps) {
  FakeSource source = dense();
  GptqOptions options;
  options.given = {"--skip"};
  options.selection.skip = {""};
  Plan plan = plan_of(source, Codec::kQ4tp);
  const auto tied = idle_options(options, plan, source, {});
  ASSERT_EQ(tied.size(), 1U);
  EXPECT_NE(tied[0].find("has no input Hessian"), std::string::npos) << tied[0];
  source.add("lm_head.weight", {40, 64});
  plan.choices.push_back({Action::kRound, Codec::kQ82f, gptq::Q2tpRule::kPlaced, {}, {}});
  const auto head = idle_options(options, plan, source, {});
  ASSERT_EQ(head.size(), 1U);
  EXPECT_NE(head[0].find("lm_head.weight gets q8_2f"), std::string::npos) << head[0];
  EXPECT_NE(head[0].find("--embeddings profile"), std::string::npos) << head[0];
  plan.choices.back() = {Action::kGptq, Codec::kQ4tp, gptq::Q2tpRule::kPlaced, {}, {}};
  EXPECT_TRUE(idle_options(options, plan, source, {}).empty());
  options.selection.skip = {"embed_tokens", "lm_head"};
  plan.choices.back().action = Action::kRound;
  EXPECT_TRUE(idle_options(options, plan, source, {}).empty());
}

TEST(IdleOptions, only_those_that_were_given_are_named) {
  const FakeSource source = dense();
  GptqOptions options;
  EXPECT_TRUE(idle_options(options, plan_of(source, Codec::kQ4tp), source, {}).empty());
  options.given = {"--min-rows"};
  EXPECT_EQ(idle_options(options, plan_of(source, Codec::kQ4tp), source, {}),
            (std::vector<std::string>{"--min-rows: has no effect: no matrix that is quantized here "
                                      "belongs to a routed expert"}));
}

}  // namespace
}  // namespace cortiq::pipeline
