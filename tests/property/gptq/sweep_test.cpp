// Sweep properties of gptq.md section 12: P1 to P9, P11, P11b, P21, P22, P24, P35, and plain
// rounding without a fold.
#include <gtest/gtest.h>

#include "cortiq/codec/codec.hpp"
#include "problems.hpp"

namespace cortiq::gptq {
namespace {

using test::make_problem;
using test::Problem;

constexpr SweepOptions kPlain{.target = Target::kQ4tp,
                              .order = Order::kNatural,
                              .rung = Rung::kDiag,
                              .ladder = LadderFit::kConverter};

SweepOptions with(Target target, Order order, Q2tpRule rule = Q2tpRule::kPlaced) {
  SweepOptions options = kPlain;
  options.target = target;
  options.order = order;
  options.rule = rule;
  return options;
}

SweepResult quantize(const Problem& p, const SweepOptions& options, int threads = 2,
                     double lambda = 0.01) {
  Pool pool(threads);
  const auto backend = make_host_backend(pool);
  const auto factor = backend->fold(p.hessian(), {.lambda = lambda, .order = options.order});
  return backend->sweep(p.weights(), p.hessian(), *factor, options);
}

std::vector<std::byte> round_to_nearest(const Problem& p, Target target, bool v1 = false) {
  Pool pool(1);
  codec::EncodeOptions options;
  options.q2tp_v1 = v1;
  return codec::encode(target == Target::kQ4tp ? codec::Codec::kQ4tp : codec::Codec::kQ2tp,
                       p.weights(), options, pool);
}

double error_of(const Problem& p, Target target, const std::vector<std::byte>& payload) {
  return test::naive_error(p, test::decode(target, p.rows, p.n, payload));
}

TEST(SweepProperty, q4tp_beats_rounding_and_keeps_its_ladders) {  // P1 to P4
  const Problem p = make_problem({});
  const auto rounded = round_to_nearest(p, Target::kQ4tp);
  const auto rtn = test::unpack(Target::kQ4tp, p.rows, p.n, rounded);
  for (const Order order : {Order::kNatural, Order::kAct}) {
    const SweepResult result = quantize(p, with(Target::kQ4tp, order));
    ASSERT_EQ(result.payload.size(), rounded.size());
    EXPECT_LT(error_of(p, Target::kQ4tp, result.payload),
              0.8 * error_of(p, Target::kQ4tp, rounded));
    const auto u = test::unpack(Target::kQ4tp, p.rows, p.n, result.payload);
    EXPECT_EQ(u.params, rtn.params);
    if (order == Order::kAct) {
      EXPECT_EQ(u.rungs, rtn.rungs);
    }
  }
  EXPECT_EQ(elimination_order(p.hessian(), Order::kAct).front(), 5);
}

TEST(SweepProperty, q2tp_rules_beat_their_encoders_and_placed_beats_cortiq) {  // P5 to P7
  const Problem p = make_problem(
      {.rows = 40, .n = 128, .samples = 600, .loud_scale = 6, .outlier = 9, .seed = 2});
  const auto v1 = round_to_nearest(p, Target::kQ2tp, true);
  const auto v2 = round_to_nearest(p, Target::kQ2tp);
  const auto cortiq = quantize(p, with(Target::kQ2tp, Order::kNatural, Q2tpRule::kCortiq)).payload;
  const auto placed = quantize(p, with(Target::kQ2tp, Order::kNatural, Q2tpRule::kPlaced)).payload;
  EXPECT_LT(error_of(p, Target::kQ2tp, cortiq), 0.8 * error_of(p, Target::kQ2tp, v1));
  EXPECT_LT(error_of(p, Target::kQ2tp, placed), 0.8 * error_of(p, Target::kQ2tp, v2));
  EXPECT_LT(error_of(p, Target::kQ2tp, placed), error_of(p, Target::kQ2tp, cortiq));
  EXPECT_EQ(test::unpack(Target::kQ2tp, p.rows, p.n, cortiq).params,
            test::unpack(Target::kQ2tp, p.rows, p.n, v1).params);
}

TEST(SweepProperty, q2tp_act_order_keeps_ladders_and_rungs) {  // P9
  const Problem p = make_problem({.rows = 24, .n = 128, .samples = 500, .seed = 4});
  const auto v1 = round_to_nearest(p, Target::kQ2tp, true);
  const auto rtn = test::unpack(Target::kQ2tp, p.rows, p.n, v1);
  const auto cortiq = quantize(p, with(Target::kQ2tp, Order::kAct, Q2tpRule::kCortiq)).payload;
  const auto u = test::unpack(Target::kQ2tp, p.rows, p.n, cortiq);
  EXPECT_EQ(u.params, rtn.params);
  EXPECT_EQ(u.rungs, rtn.rungs);
  EXPECT_LT(error_of(p, Target::kQ2tp, cortiq), 0.8 * error_of(p, Target::kQ2tp, v1));
  const auto placed =
      test::unpack(Target::kQ2tp, p.rows, p.n,
                   quantize(p, with(Target::kQ2tp, Order::kAct, Q2tpRule::kPlaced)).payload);
  std::vector<float> weights;
  for (std::int64_t i = 0; i < p.n; ++i) weights.push_back(static_cast<float>(p.h[p.at(i, i)]));
  for (std::int64_t r = 0; r < p.rows; ++r) {
    std::vector<std::uint8_t> rungs(4);
    const auto params =
        codec::q2tp_place_row(std::span(p.w).subspan(p.at(r, 0), 128), weights, rungs);
    EXPECT_EQ(placed.params[static_cast<std::size_t>(r)], params);
    for (std::size_t g = 0; g < 4; ++g)
      EXPECT_EQ(placed.rungs[static_cast<std::size_t>(r) * 4 + g], rungs[g]);
  }
}

TEST(SweepProperty, same_bytes_for_every_thread_count_and_run) {  // P8, P35
  const Problem p = make_problem({.rows = 70, .n = 256, .samples = 300, .seed = 6});
  for (const Target target : {Target::kQ4tp, Target::kQ2tp}) {
    for (const Order order : {Order::kNatural, Order::kGroup, Order::kAct}) {
      for (const bool rich : {false, true}) {
        SweepOptions options = with(target, order, rich ? Q2tpRule::kPlaced : Q2tpRule::kCortiq);
        options.debias = true;
        if (rich) options.rung = Rung::kSim;
        if (rich) options.ladder = LadderFit::kFit;
        const SweepResult first = quantize(p, options, 1);
        for (const int threads : {1, 2, 7}) {
          const SweepResult other = quantize(p, options, threads);
          EXPECT_EQ(first.payload, other.payload);
          EXPECT_EQ(first.output_error, other.output_error);
          EXPECT_EQ(first.output_energy, other.output_energy);
        }
      }
    }
  }
}

TEST(SweepProperty, better_options_lower_the_error_of_both_targets) {
  const Problem p = make_problem({.rows = 64, .n = 256, .samples = 800, .factors = 16, .seed = 8});
  for (const Target target : {Target::kQ4tp, Target::kQ2tp}) {
    const double plain = quantize(p, with(target, Order::kNatural)).output_error;
    const double best = quantize(p, {.target = target}).output_error;
    EXPECT_LT(best, (target == Target::kQ4tp ? 0.9 : 1.0) * plain);
  }
}

/// H = c*I: no feedback, so the sweep is the encoder with another nominal rule.
TEST(SweepProperty, multiple_of_the_identity_reduces_to_rounding) {  // P11, P11b
  Problem p = make_problem({.rows = 16, .n = 192, .outlier = 4, .seed = 10});
  std::fill(p.h.begin(), p.h.end(), 0.0);
  for (std::int64_t i = 0; i < p.n; ++i) p.h[p.at(i, i)] = 2.0;
  const auto q4 = test::unpack(Target::kQ4tp, p.rows, p.n,
                               quantize(p, with(Target::kQ4tp, Order::kNatural), 2, 0).payload);
  const auto rtn = test::unpack(Target::kQ4tp, p.rows, p.n, round_to_nearest(p, Target::kQ4tp));
  EXPECT_EQ(q4.params, rtn.params);
  std::int64_t compared = 0;
  std::int64_t equal = 0;
  for (std::size_t i = 0; i < q4.codes.size(); ++i) {
    if (q4.rungs[i / 32] != rtn.rungs[i / 32]) continue;
    ++compared;
    equal += q4.codes[i] == rtn.codes[i] ? 1 : 0;
  }
  EXPECT_GE(static_cast<double>(compared), 0.9 * static_cast<double>(q4.codes.size()));
  EXPECT_GE(static_cast<double>(equal), 0.999 * static_cast<double>(compared));

  const auto q2 = test::unpack(Target::kQ2tp, p.rows, p.n,
                               quantize(p, with(Target::kQ2tp, Order::kNatural), 2, 0).payload);
  const std::vector<float> ones(192, 1.0F);
  for (std::int64_t r = 0; r < p.rows; ++r) {
    std::vector<std::uint8_t> rungs(6);
    EXPECT_EQ(q2.params[static_cast<std::size_t>(r)],
              codec::q2tp_place_row(std::span(p.w).subspan(p.at(r, 0), 192), ones, rungs));
    for (std::size_t g = 0; g < 6; ++g)
      EXPECT_EQ(q2.rungs[static_cast<std::size_t>(r) * 6 + g], rungs[g]);
  }
}

TEST(SweepProperty,
     simulated_and_unweighted_choice_agree_without_correlation) {  // docs/quality.md section 9
  Problem p = make_problem({.rows = 32, .n = 128, .seed = 12});
  std::fill(p.h.begin(), p.h.end(), 0.0);
  for (std::int64_t i = 0; i < p.n; ++i) p.h[p.at(i, i)] = 3.0;
  SweepOptions simulated = with(Target::kQ2tp, Order::kNatural);
  simulated.rung = Rung::kSim;
  const double full = quantize(p, with(Target::kQ2tp, Order::kNatural), 2, 0).output_error;
  const double coarse = quantize(p, simulated, 2, 0).output_error;
  EXPECT_GE(coarse, full * (1 - 1e-6));  // all rungs are the minimum here
  EXPECT_LE(coarse, full * 1.02);
}

TEST(SweepProperty, debias_moves_only_the_lowest_rung_by_the_slope) {  // P21, P22, P24
  for (const Target target : {Target::kQ4tp, Target::kQ2tp}) {
    const Problem p = make_problem({.rows = 20, .n = 128, .samples = 300, .seed = 14});
    SweepOptions options = with(target, Order::kNatural);
    const auto before_payload = quantize(p, options).payload;
    options.debias = true;
    const auto before = test::unpack(target, p.rows, p.n, before_payload);
    const auto after = test::unpack(target, p.rows, p.n, quantize(p, options).payload);
    EXPECT_EQ(before.codes, after.codes);
    EXPECT_EQ(before.rungs, after.rungs);
    const std::vector<float> q = test::decode(target, p.rows, p.n, before_payload);
    for (std::int64_t r = 0; r < p.rows; ++r) {
      double num = 0;
      double den = 0;
      for (std::int64_t i = 0; i < p.n; ++i) {
        for (std::int64_t j = 0; j < p.n; ++j) {
          const double hw = p.h[p.at(i, j)] * static_cast<double>(p.w[p.at(r, j)]);
          num += static_cast<double>(q[p.at(r, i)]) * hw;
          den += static_cast<double>(p.w[p.at(r, i)]) * hw;
        }
      }
      const auto sr = static_cast<std::size_t>(r);
      EXPECT_EQ(after.params[sr], codec::unshrink(before.params[sr], num, den)) << "row " << r;
    }
  }
}

TEST(SweepProperty, dead_channels_are_zeroed_but_a_dead_input_is_rounded) {
  Problem p = make_problem({.rows = 8, .n = 64, .seed = 15});
  p.kill_channel(7);
  const SweepResult one_dead = quantize(p, {.target = Target::kQ4tp});
  for (std::int64_t r = 0; r < p.rows; ++r) {
    EXPECT_EQ(test::unpack(Target::kQ4tp, p.rows, p.n, one_dead.payload).codes[p.at(r, 7)], 8);
  }
  std::fill(p.h.begin(), p.h.end(), 0.0);
  for (const Target target : {Target::kQ4tp, Target::kQ2tp}) {
    for (const Order order : {Order::kNatural, Order::kGroup, Order::kAct}) {
      const SweepResult all_dead = quantize(p, with(target, order));
      EXPECT_EQ(all_dead.dead_groups, 0);
      EXPECT_EQ(all_dead.output_energy, 0);
      double squares = 0;
      double errors = 0;
      const auto q = test::decode(target, p.rows, p.n, all_dead.payload);
      for (std::size_t i = 0; i < q.size(); ++i) {
        squares += static_cast<double>(p.w[i]) * static_cast<double>(p.w[i]);
        errors += std::pow(static_cast<double>(p.w[i]) - static_cast<double>(q[i]), 2);
      }
      EXPECT_LT(errors, (target == Target::kQ4tp ? 0.01 : 0.2) * squares);
    }
  }
}

TEST(SweepProperty, zero_groups_are_stored_as_the_format_says) {
  Problem p = make_problem({.rows = 4, .n = 96, .seed = 16});
  for (std::int64_t c = 32; c < 64; ++c) p.w[p.at(2, c)] = 0.0F;
  for (std::int64_t c = 0; c < 96; ++c) p.w[p.at(3, c)] = 0.0F;
  // No correlation across groups, so that nothing flows into the zero group of row 2.
  for (std::int64_t i = 0; i < 96; ++i) {
    for (std::int64_t j = 0; j < 96; ++j)
      p.h[p.at(i, j)] = i / 32 == j / 32 ? p.h[p.at(i, j)] : 0.0;
  }
  for (const Target target : {Target::kQ4tp, Target::kQ2tp}) {
    const SweepResult result = quantize(p, {.target = target});
    EXPECT_EQ(result.dead_groups, 4);
    const auto u = test::unpack(target, p.rows, p.n, result.payload);
    EXPECT_EQ(u.rungs[2 * 3 + 1], 0);
    for (std::int64_t c = 32; c < 64; ++c)
      EXPECT_EQ(u.codes[p.at(2, c)], target == Target::kQ4tp ? 8 : 0);
    const auto q = test::decode(target, p.rows, p.n, result.payload);
    for (std::int64_t c = 0; c < 96; ++c) EXPECT_EQ(q[p.at(3, c)], 0.0F);
  }
}

TEST(SweepProperty, chunks_of_rows_do_not_change_the_bytes) {
  const Problem p = make_problem({.rows = 1100, .n = 64, .samples = 200, .seed = 18});
  const SweepResult whole = quantize(p, {.target = Target::kQ4tp});
  Problem tail = p;
  tail.rows = 76;
  tail.w.assign(p.w.begin() + 1024 * 64, p.w.end());
  const SweepResult part = quantize(tail, {.target = Target::kQ4tp});
  const auto all = test::unpack(Target::kQ4tp, p.rows, p.n, whole.payload);
  const auto last = test::unpack(Target::kQ4tp, tail.rows, p.n, part.payload);
  EXPECT_TRUE(std::equal(last.codes.begin(), last.codes.end(), all.codes.begin() + 1024 * 64));
  EXPECT_TRUE(std::equal(last.rungs.begin(), last.rungs.end(), all.rungs.begin() + 1024 * 2));
  EXPECT_TRUE(std::equal(last.params.begin(), last.params.end(), all.params.begin() + 1024));
}

TEST(SweepProperty, weights_beyond_the_scales_of_the_format_are_refused) {
  Problem p = make_problem({.rows = 2, .n = 32, .seed = 19});
  p.w[40] = 1e30F;
  EXPECT_THROW(
      {
        try {
          (void)quantize(p, with(Target::kQ4tp, Order::kNatural));
        } catch (const Error& error) {
          EXPECT_EQ(error.kind(), ErrorKind::kNumeric);
          EXPECT_NE(std::string(error.what()).find("row 1"), std::string::npos);
          throw;
        }
      },
      Error);
}

}  // namespace
}  // namespace cortiq::gptq
