// The larger steps of the polish: whole groups with their rungs, and the scale of a row.
#include <gtest/gtest.h>

#include <cmath>

#include "cortiq/gptq/group_block.hpp"
#include "cortiq/gptq/sweep.hpp"
#include "cortiq/support/half.hpp"
#include "problems.hpp"

namespace cortiq::gptq {
namespace {

using test::Problem;

struct Solved {
  double damping = 0;
  SweepResult result;
};

Solved solve(const Problem& p, const SweepOptions& options, int threads = 1) {
  Pool pool(threads);
  FoldOptions fold;
  fold.order = options.order;
  fold.keep_damped = true;
  const auto factor = fold_host(p.hessian(), fold, pool);
  return {factor->damping, sweep_host(p.weights(), p.hessian(), *factor, options, pool)};
}

SweepOptions with_steps(Target target, int passes, bool moves, bool scale) {
  SweepOptions options;
  options.target = target;
  options.polish = passes;
  options.group_moves = moves;
  options.row_scale = scale;
  return options;
}

Problem problem(std::uint64_t seed, std::int64_t n = 192) {
  return test::make_problem({.rows = 40, .n = n, .samples = 600, .outlier = 6, .seed = seed});
}

/// a H_d b^T by the definition, H_d = H + damping on the diagonal.
double product(const Problem& p, double damping, const std::vector<double>& a,
               const std::vector<double>& b) {
  double total = 0;
  for (std::int64_t i = 0; i < p.n; ++i) {
    double row = damping * b[static_cast<std::size_t>(i)];
    for (std::int64_t j = 0; j < p.n; ++j) row += p.h[p.at(i, j)] * b[static_cast<std::size_t>(j)];
    total += a[static_cast<std::size_t>(i)] * row;
  }
  return total;
}

struct Row {
  std::vector<double> w, q, e;
};

Row row_of(const Problem& p, const std::vector<float>& q, std::int64_t r) {
  Row row;
  for (std::int64_t c = 0; c < p.n; ++c) {
    row.w.push_back(static_cast<double>(p.w[p.at(r, c)]));
    row.q.push_back(static_cast<double>(q[p.at(r, c)]));
    row.e.push_back(row.q.back() - row.w.back());
  }
  return row;
}

}  // namespace

TEST(GroupBlock, holds_the_inverse_and_its_upper_factor) {
  const Problem p = problem(2, 32);
  GroupBlock::Square h{};
  for (std::size_t i = 0; i < h.size(); ++i) h[i] = p.h[i];
  for (std::size_t i = 0; i < 32; ++i) h[i * 33] += 0.5;
  const GroupBlock block = make_group_block({h.data(), 32, 32});
  ASSERT_TRUE(block.usable);
  for (std::size_t i = 0; i < 32; ++i) {
    for (std::size_t j = 0; j < 32; ++j) {
      double identity = 0;
      double square = 0;
      for (std::size_t k = 0; k < 32; ++k) {
        identity += h[i * 32 + k] * block.inverse[k * 32 + j];
        square += block.upper[k * 32 + i] * block.upper[k * 32 + j];
      }
      EXPECT_NEAR(identity, i == j ? 1.0 : 0.0, 1e-9);
      EXPECT_NEAR(square, block.inverse[i * 32 + j], 1e-9 * std::fabs(block.inverse[i * 33]));
      if (j < i) {
        EXPECT_EQ(block.upper[i * 32 + j], 0.0);
      }
    }
  }
  h[5 * 33] = -1;
  EXPECT_FALSE(make_group_block({h.data(), 32, 32}).usable);
}

TEST(MovesProperty, no_step_raises_the_damped_loss_of_any_row_and_the_error_is_that_of_the_file) {
  for (const Target target : {Target::kQ4tp, Target::kQ2tp}) {
    for (const bool scale : {false, true}) {
      const Problem p = problem(3);
      std::vector<double> before;
      for (int passes = 0; passes <= 4; ++passes) {
        const Solved solved = solve(p, with_steps(target, passes, true, scale));
        const auto q = test::decode(target, p.rows, p.n, solved.result.payload);
        std::vector<double> now;
        for (std::int64_t r = 0; r < p.rows; ++r) {
          const Row row = row_of(p, q, r);
          now.push_back(product(p, solved.damping, row.e, row.e));
          if (passes > 0) {
            EXPECT_LE(now.back(), before[static_cast<std::size_t>(r)] * (1 + 1e-6))
                << "row " << r << " pass " << passes;
          }
        }
        before = now;
        EXPECT_NEAR(solved.result.output_error / test::naive_error(p, q), 1.0, 1e-4);
      }
    }
  }
}

TEST(MovesProperty, whole_groups_gain_on_top_of_single_codes) {
  for (const Target target : {Target::kQ4tp, Target::kQ2tp}) {
    double codes = 0;
    double groups = 0;
    for (std::uint64_t seed = 20; seed < 24; ++seed) {
      const Problem p = problem(seed);
      codes += solve(p, with_steps(target, 4, false, false)).result.output_error;
      groups += solve(p, with_steps(target, 4, true, false)).result.output_error;
    }
    EXPECT_LT(groups, 0.99 * codes);
  }
}

TEST(MovesProperty, a_row_that_is_one_group_is_where_the_sweep_left_it) {
  const Problem p = problem(5, 32);
  for (const Target target : {Target::kQ4tp, Target::kQ2tp}) {
    EXPECT_EQ(solve(p, with_steps(target, 1, true, false)).result.payload,
              solve(p, with_steps(target, 1, false, false)).result.payload);
  }
}

/// After one pass the scale is the last step: s = <Q,W> / <Q,Q> is 1 up to the steps of an f16.
TEST(MovesProperty, the_scale_of_a_row_is_its_least_squares_scale) {
  for (const Target target : {Target::kQ4tp, Target::kQ2tp}) {
    const Problem p = problem(7);
    const Solved plain = solve(p, with_steps(target, 1, false, false));
    const Solved scaled = solve(p, with_steps(target, 1, false, true));
    const auto params = test::unpack(target, p.rows, p.n, scaled.result.payload).params;
    const auto before = test::decode(target, p.rows, p.n, plain.result.payload);
    const auto q = test::decode(target, p.rows, p.n, scaled.result.payload);
    double farthest = 0;
    for (std::int64_t r = 0; r < p.rows; ++r) {
      const auto off = [&](const std::vector<float>& values) {
        const Row row = row_of(p, values, r);
        return std::log2(product(p, scaled.damping, row.q, row.w) /
                         product(p, scaled.damping, row.q, row.q));
      };
      const double lo = std::fabs(
          static_cast<double>(f16_to_f32(params[static_cast<std::size_t>(r)].lo)));
      const double half_step = std::exp2(std::floor(std::log2(std::max(lo, 1e-3))) - 11);
      EXPECT_LE(std::fabs(off(q)), half_step + 2e-4) << "row " << r;
      farthest = std::max(farthest, std::fabs(off(before)));
    }
    EXPECT_GT(farthest, 5e-3) << "the problem leaves something to do";
    EXPECT_LT(scaled.result.output_error, plain.result.output_error);
  }
}

TEST(MovesProperty, multiple_of_the_identity_leaves_the_codes_alone) {
  Problem p = problem(9);
  std::fill(p.h.begin(), p.h.end(), 0.0);
  for (std::int64_t i = 0; i < p.n; ++i) p.h[p.at(i, i)] = 3.0;
  for (const Target target : {Target::kQ4tp, Target::kQ2tp}) {
    EXPECT_EQ(solve(p, with_steps(target, 0, true, false)).result.payload,
              solve(p, with_steps(target, 2, true, false)).result.payload);
  }
}

TEST(MovesProperty, same_bytes_for_every_thread_count_and_dead_channels_stay_zero) {
  Problem p = test::make_problem({.rows = 70, .n = 256, .samples = 300, .seed = 11});
  p.kill_channel(17);
  for (const Target target : {Target::kQ4tp, Target::kQ2tp}) {
    const SweepOptions options = with_steps(target, 2, true, true);
    const auto one = solve(p, options, 1).result.payload;
    EXPECT_EQ(one, solve(p, options, 2).result.payload);
    EXPECT_EQ(one, solve(p, options, 7).result.payload);
    if (target != Target::kQ4tp) continue;  // q2tp has no zero level
    const auto q = test::decode(target, p.rows, p.n, one);
    for (std::int64_t r = 0; r < p.rows; ++r) EXPECT_EQ(q[p.at(r, 17)], 0.0F);
  }
}

}  // namespace cortiq::gptq
