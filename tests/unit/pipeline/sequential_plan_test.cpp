// When a run calibrates sequentially, and what its plan says.
#include "../../../src/pipeline/sequential_plan.hpp"

#include <gtest/gtest.h>

#include "cortiq/support/error.hpp"

namespace cortiq::pipeline::test {
namespace {

GptqOptions with(codec::Codec profile, Effort effort = Effort::kDefault) {
  GptqOptions options;
  options.selection.profile = profile;
  options.effort = effort;
  return options;
}

TEST(SequentialPlan, is_the_default_of_q2tp_without_a_cache_and_of_high_effort) {
  using codec::Codec;
  EXPECT_FALSE(runs_sequentially(with(Codec::kQ4tp)));
  EXPECT_TRUE(runs_sequentially(with(Codec::kQ2tp)));
  EXPECT_TRUE(runs_sequentially(with(Codec::kQ4tp, Effort::kHigh)));
  EXPECT_FALSE(runs_sequentially(with(Codec::kQ2tp, Effort::kFast)));
  GptqOptions cached = with(Codec::kQ2tp);
  cached.hessians = "a.hess";
  EXPECT_FALSE(runs_sequentially(cached));
}

TEST(SequentialPlan, a_given_choice_decides) {
  GptqOptions options = with(codec::Codec::kQ2tp);
  options.sequential.wanted = false;
  EXPECT_FALSE(runs_sequentially(options));
  options = with(codec::Codec::kQ4tp, Effort::kFast);
  options.sequential.wanted = true;
  EXPECT_TRUE(runs_sequentially(options));
  options = with(codec::Codec::kQ4tp, Effort::kHigh);
  options.sequential.wanted = false;
  options.hessians = "a.hess";
  EXPECT_FALSE(runs_sequentially(options));
}

TEST(SequentialPlan, a_cache_is_refused_with_the_reason) {
  GptqOptions asked = with(codec::Codec::kQ4tp);
  asked.sequential.wanted = true;
  for (GptqOptions options : {asked, with(codec::Codec::kQ4tp, Effort::kHigh)}) {
    options.hessians = "a.hess";
    try {
      static_cast<void>(runs_sequentially(options));
      FAIL() << "accepted";
    } catch (const Error& error) {
      EXPECT_EQ(error.kind(), ErrorKind::kUsage);
      EXPECT_NE(std::string(error.what()).find("depend on the quantized layers before"),
                std::string::npos)
          << error.what();
    }
  }
}

TEST(SequentialPlan, lines_name_effort_parts_and_the_way_out) {
  const auto one_shot = recipe_lines(with(codec::Codec::kQ4tp));
  ASSERT_EQ(one_shot.size(), 1U);
  EXPECT_EQ(one_shot[0],
            "  effort default: order group, rung sim, ladder fit, 2 polish passes, one-shot");
  const auto sequential = recipe_lines(with(codec::Codec::kQ2tp));
  ASSERT_EQ(sequential.size(), 3U);
  EXPECT_NE(sequential[1].find("alpha 0.75, rho 0.01"), std::string::npos) << sequential[1];
  EXPECT_NE(sequential[2].find("--no-sequential"), std::string::npos) << sequential[2];
}

TEST(SequentialPlan, options_record_the_recipe) {
  cmf::Json json;
  add_recipe(json, with(codec::Codec::kQ4tp, Effort::kHigh));
  EXPECT_EQ(json["effort"], "high");
  EXPECT_EQ(json["sequential"], true);
  EXPECT_EQ(json["seq_alpha"], 0.75);
  EXPECT_EQ(json["seq_rho"], 0.01);
}

}  // namespace
}  // namespace cortiq::pipeline::test
