// Coordinate descent after the sweep: never a larger damped loss, fixed points stay, the same codes
// as plain coordinate descent, and nothing where H is a multiple of the identity.
#include <gtest/gtest.h>

#include "cortiq/gptq/sweep.hpp"
#include "problems.hpp"

namespace cortiq::gptq {
namespace {

using test::Problem;

struct Solved {
  std::unique_ptr<HostFactor> factor;
  SweepResult result;
};

Solved solve(const Problem& p, SweepOptions options, int threads = 1,
             SimdLevel simd = detect_simd()) {
  Pool pool(threads, simd);
  FoldOptions fold;
  fold.order = options.order;
  fold.keep_damped = true;
  Solved solved;
  solved.factor = fold_host(p.hessian(), fold, pool);
  solved.result = sweep_host(p.weights(), p.hessian(), *solved.factor, options, pool);
  return solved;
}

SweepOptions with_polish(Target target, int passes, Order order = Order::kGroup) {
  SweepOptions options;
  options.target = target;
  options.order = order;
  options.polish = passes;
  return options;
}

Problem problem(std::uint64_t seed) {
  return test::make_problem({.rows = 40, .n = 192, .samples = 600, .outlier = 6, .seed = seed});
}

/// (W-Q) H_d (W-Q)^T of one row by the definition.
double damped_loss(const Problem& p, const std::vector<float>& q, double damping, std::int64_t r) {
  double total = 0;
  for (std::int64_t i = 0; i < p.n; ++i) {
    const double ei = static_cast<double>(p.w[p.at(r, i)]) - static_cast<double>(q[p.at(r, i)]);
    total += damping * ei * ei;
    for (std::int64_t j = 0; j < p.n; ++j) {
      const double ej = static_cast<double>(p.w[p.at(r, j)]) - static_cast<double>(q[p.at(r, j)]);
      total += ei * p.h[p.at(i, j)] * ej;
    }
  }
  return total;
}

}  // namespace

TEST(PolishProperty, no_pass_raises_the_damped_loss_of_any_row) {
  for (const Target target : {Target::kQ4tp, Target::kQ2tp}) {
    const Problem p = problem(3);
    std::vector<double> before;
    for (int passes = 0; passes <= 4; ++passes) {
      const Solved solved = solve(p, with_polish(target, passes));
      const auto q = test::decode(target, p.rows, p.n, solved.result.payload);
      double sum = 0;
      for (std::int64_t r = 0; r < p.rows; ++r) {
        const double loss = damped_loss(p, q, solved.factor->damping, r);
        sum += loss;
        // Decoded values are f32: 1e-6 of the loss is far above their rounding here.
        if (passes > 0) {
          EXPECT_LE(loss, before[static_cast<std::size_t>(r)] * (1 + 1e-6))
              << "row " << r << " pass " << passes;
        }
      }
      before.clear();
      for (std::int64_t r = 0; r < p.rows; ++r)
        before.push_back(damped_loss(p, q, solved.factor->damping, r));
      EXPECT_NEAR(solved.result.output_error / test::naive_error(p, q), 1.0, 1e-4);
    }
  }
}

TEST(PolishProperty, lowers_the_output_error_and_ends_in_a_fixed_point) {
  for (const Target target : {Target::kQ4tp, Target::kQ2tp}) {
    const Problem p = problem(5);
    const double none = solve(p, with_polish(target, 0)).result.output_error;
    const double two = solve(p, with_polish(target, 2)).result.output_error;
    EXPECT_LT(two, 0.99 * none);
    const Solved many = solve(p, with_polish(target, 60));
    const Solved more = solve(p, with_polish(target, 61));
    EXPECT_EQ(many.result.payload, more.result.payload);
    // Fixed point: no single code can move and lower the loss of its row.
    const auto codes = test::unpack(target, p.rows, p.n, many.result.payload);
    auto q = test::decode(target, p.rows, p.n, many.result.payload);
    const int levels = target == Target::kQ4tp ? 16 : 4;
    for (std::int64_t r = 0; r < 6; ++r) {
      const double loss = damped_loss(p, q, many.factor->damping, r);
      for (std::int64_t c = 0; c < p.n; c += 7) {
        const std::size_t at = p.at(r, c);
        const int code = codes.codes[at];
        const double level = target == Target::kQ4tp ? code - 8 : code - 1.5;
        if (level == 0) continue;  // the scale cannot be read off a zero
        const float kept = q[at];
        const float scale = static_cast<float>(static_cast<double>(kept) / level);
        for (const int other : {code - 1, code + 1}) {
          if (other < 0 || other >= levels) continue;
          q[at] = kept + static_cast<float>(other - code) * scale;
          EXPECT_GE(damped_loss(p, q, many.factor->damping, r), loss * (1 - 1e-6)) << r << "," << c;
        }
        q[at] = kept;
      }
    }
  }
}

TEST(PolishProperty, multiple_of_the_identity_leaves_the_codes_alone) {
  Problem p = problem(7);
  std::fill(p.h.begin(), p.h.end(), 0.0);
  for (std::int64_t i = 0; i < p.n; ++i) p.h[p.at(i, i)] = 3.0;
  for (const Target target : {Target::kQ4tp, Target::kQ2tp}) {
    EXPECT_EQ(solve(p, with_polish(target, 0)).result.payload,
              solve(p, with_polish(target, 2)).result.payload);
  }
}

TEST(PolishProperty, same_bytes_for_every_thread_count_and_nothing_with_act_order) {
  const Problem p = test::make_problem({.rows = 70, .n = 256, .samples = 300, .seed = 11});
  for (const Target target : {Target::kQ4tp, Target::kQ2tp}) {
    const auto one = solve(p, with_polish(target, 2), 1).result.payload;
    EXPECT_EQ(one, solve(p, with_polish(target, 2), 2).result.payload);
    EXPECT_EQ(one, solve(p, with_polish(target, 2), 7).result.payload);
    EXPECT_EQ(solve(p, with_polish(target, 0, Order::kAct)).result.payload,
              solve(p, with_polish(target, 2, Order::kAct)).result.payload);
  }
}

TEST(PolishProperty, instruction_sets_agree_in_quality_and_dead_channels_stay_zero) {
  Problem p = problem(13);
  p.kill_channel(17);
  const double best = solve(p, with_polish(Target::kQ4tp, 2)).result.output_error;
  for (const SimdLevel level : {SimdLevel::kPortable, SimdLevel::kAvx2, SimdLevel::kAvx512}) {
    if (level > detect_simd()) continue;
    const Solved solved = solve(p, with_polish(Target::kQ4tp, 2), 1, level);
    EXPECT_NEAR(solved.result.output_error / best, 1.0, 5e-3);
    const auto q = test::decode(Target::kQ4tp, p.rows, p.n, solved.result.payload);
    for (std::int64_t r = 0; r < p.rows; ++r) EXPECT_EQ(q[p.at(r, 17)], 0.0F);
  }
}

}  // namespace cortiq::gptq
