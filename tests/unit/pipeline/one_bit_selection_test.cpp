// q1s and q1t in the selection and in the plan: what becomes a candidate, what is copied instead of
// being rounded to one bit, and sizes that are known before the work.
#include <gtest/gtest.h>

#include "cortiq/gptq/one_bit.hpp"
#include "cortiq/pipeline/plan.hpp"
#include "fake_source.hpp"

namespace cortiq::pipeline {
namespace {

using cmf::DType;
using codec::Codec;
using test::FakeSource;

constexpr const char* kQ = "model.layers.0.self_attn.q_proj.weight";
constexpr const char* kDown = "model.layers.0.mlp.down_proj.weight";
constexpr const char* kEmbed = "model.embed_tokens.weight";

FakeSource model() {
  FakeSource source(cmf::Json{{"arch_name", "llama"}});
  source.add(kEmbed, {64, 64}).add(kQ, {64, 64}).add(kDown, {64, 128});
  source.add("model.layers.0.packed.weight", {32, 32}, DType::kQ82f);
  return source;
}

SelectionOptions one_bit(Codec profile) {
  SelectionOptions options;
  options.profile = profile;
  return options;
}

TensorChoice choice_of(const SelectionOptions& options, std::string_view name) {
  const FakeSource source = model();
  return select_tensors(source, options).at(source.find(name).value());
}

TEST(OneBitSelection, matrices_of_layers_are_candidates_and_quantized_ones_too) {
  for (const Codec codec : {Codec::kQ1s, Codec::kQ1t}) {
    for (const char* name : {kQ, kDown, "model.layers.0.packed.weight"}) {
      EXPECT_EQ(choice_of(one_bit(codec), name).action, Action::kGptq) << name;
      EXPECT_EQ(choice_of(one_bit(codec), name).codec, codec) << name;
    }
    EXPECT_EQ(choice_of(one_bit(codec), kEmbed).codec, Codec::kQ82f);
  }
  EXPECT_EQ(choice_of({}, "model.layers.0.packed.weight").action, Action::kCopy);
}

TEST(OneBitSelection, what_is_no_candidate_is_copied_and_not_rounded_to_one_bit) {
  SelectionOptions skip = one_bit(Codec::kQ1s);
  skip.skip = {"q_proj"};
  EXPECT_EQ(choice_of(skip, kQ).action, Action::kCopy);
  EXPECT_EQ(choice_of(skip, kQ).reason, "in the skip list");
  SelectionOptions include = one_bit(Codec::kQ1t);
  include.include = {"*.down_proj.weight"};
  EXPECT_EQ(choice_of(include, kQ).action, Action::kCopy);
  SelectionOptions wide = one_bit(Codec::kQ1s);
  wide.max_cols = 64;
  EXPECT_EQ(choice_of(wide, kQ).action, Action::kGptq);
  EXPECT_EQ(choice_of(wide, kDown).action, Action::kCopy);
  EXPECT_EQ(choice_of(wide, kDown).reason, "wider than --max-cols");
  SelectionOptions rounding = one_bit(Codec::kQ1s);
  rounding.gptq = false;
  EXPECT_EQ(choice_of(rounding, kQ).action, Action::kRound);
}

TEST(OneBitSelection, down_proj_may_keep_more_up_to_a_quarter) {
  SelectionOptions options = one_bit(Codec::kQ1s);
  options.one_bit.keep = 0.02;
  options.down_keep = 3;
  EXPECT_DOUBLE_EQ(choice_of(options, kQ).one_bit.keep, 0.02);
  EXPECT_DOUBLE_EQ(choice_of(options, kDown).one_bit.keep, 0.06);
  options.down_keep = 100;
  EXPECT_DOUBLE_EQ(choice_of(options, kDown).one_bit.keep, 0.25);
}

TEST(OneBitSelection, the_plan_knows_the_size_of_every_payload) {
  const FakeSource source = model();
  Pool pool(1);
  NullLog log;
  Interrupt interrupt;
  Context context{pool, log, interrupt};
  SelectionOptions options = one_bit(Codec::kQ1s);
  options.overrides = {{kDown, Codec::kQ1t}};
  const Plan plan = plan_tensors(source, options, 0.01F, false, context);
  // Groups of 6 bytes, a count, 41 entries of 6 bytes: 64*64*0.01 = 40.96.
  EXPECT_EQ(plan.output[1].nbytes, 64U * 2 * 6 + 4 + 41 * 6);
  EXPECT_EQ(plan.output[1].dtype, DType::kQ1s);
  // Groups of 9 bytes, 65 row begins, 82 entries of 4 bytes: 64*128*0.01 = 81.92.
  EXPECT_EQ(plan.output[2].nbytes, 64U * 4 * 9 + 65 * 4 + 82 * 4);
}

}  // namespace
}  // namespace cortiq::pipeline
