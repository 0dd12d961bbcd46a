// q1s and q1t: properties P30 and P31 of gptq.md section 12, the sweep against a plain one, and
// what the masks, the overlay and the threads may not change.
#include <gtest/gtest.h>

#include <cmath>
#include <numeric>

#include "cortiq/gptq/one_bit.hpp"
#include "problems.hpp"

namespace cortiq::gptq {
namespace {

using test::make_problem;
using test::Problem;

std::vector<float> decode(Target target, std::int64_t rows, std::int64_t n,
                          const std::vector<std::byte>& payload) {
  const std::int64_t shape[] = {rows, n};
  const codec::RowDecoder decoder(target == Target::kQ1s ? cmf::DType::kQ1s : cmf::DType::kQ1t,
                                  shape, payload);
  std::vector<float> values(static_cast<std::size_t>(rows * n));
  decoder.decode(0, MatrixView<float>(values.data(), rows, n));
  return values;
}

SweepOptions options_for(Target target, double keep) {
  SweepOptions options;
  options.target = target;
  options.polish = 2;
  options.one_bit.keep = keep;
  return options;
}

SweepResult sweep(const Problem& p, const SweepOptions& options, Pool& pool, double lambda = 0.01) {
  const auto backend = make_host_backend(pool);
  const auto factor = backend->fold(
      p.hessian(), {.lambda = lambda, .order = options.order, .keep_damped = true});
  return backend->sweep(p.weights(), p.hessian(), *factor, options);
}

/// Mean magnitude and signs of all weights; the `count` highest |w| sqrt(H_ii) kept as they are.
std::vector<float> naive_signs(const Problem& p, std::size_t count) {
  std::vector<std::size_t> order(p.w.size());
  std::iota(order.begin(), order.end(), std::size_t{0});
  const auto score = [&](std::size_t i) {
    const auto c = static_cast<std::int64_t>(i) % p.n;
    return std::fabs(static_cast<double>(p.w[i])) * std::sqrt(p.h[p.at(c, c)]);
  };
  std::stable_sort(order.begin(), order.end(),
                   [&](std::size_t a, std::size_t b) { return score(a) > score(b); });
  std::vector<float> q(p.w.size());
  for (std::size_t g = 0; g < p.w.size(); g += 32) {
    float mean = 0;
    for (std::size_t i = g; i < g + 32; ++i) mean += std::fabs(p.w[i]) / 32.0F;
    for (std::size_t i = g; i < g + 32; ++i) q[i] = std::copysign(mean, p.w[i]);
  }
  for (std::size_t i = 0; i < count; ++i) q[order[i]] = p.w[order[i]];
  return q;
}

TEST(OneBit, p30_q1s_is_far_better_than_signs_alone) {
  Pool pool(2);
  for (const std::uint64_t seed : {1, 2, 3, 4}) {
    const Problem p =
        make_problem({.rows = 8, .n = 64, .samples = 400, .factors = 6, .loud = -1, .seed = seed});
    const SweepResult result = sweep(p, options_for(Target::kQ1s, 0.01), pool);
    const double error = test::naive_error(p, decode(Target::kQ1s, p.rows, p.n, result.payload));
    EXPECT_LT(error, 0.6 * test::naive_error(p, naive_signs(p, 5))) << "seed " << seed;
  }
}

TEST(OneBit, p31_q1t_rounds_a_group_better_than_the_half_mean_rule) {
  Pool pool(1);
  test::Lcg random(7);
  std::vector<float> w(32);
  // Small weights and some large ones: the mean magnitude says little about the large ones.
  for (std::size_t i = 0; i < w.size(); ++i)
    w[i] = i % 4 == 0 ? (random.next() > 0 ? 1.0F : -1.0F) : 0.3F * random.next();
  OneBitOptions options;
  options.keep = 0;
  options.row_rescale = false;
  const auto payload =
      round_one_bit(ConstMatrixView<float>(w.data(), 1, 32), Target::kQ1t, options, pool);
  const std::vector<float> q = decode(Target::kQ1t, 1, 32, payload);
  double mean = 0;
  for (const float v : w) mean += std::fabs(static_cast<double>(v)) / 32;
  double legacy = 0;
  double ours = 0;
  for (std::size_t i = 0; i < w.size(); ++i) {
    const double v = static_cast<double>(w[i]);
    const double rule = std::fabs(v) >= mean / 2 ? std::copysign(mean, v) : 0.0;
    legacy += (v - rule) * (v - rule);
    ours += (v - static_cast<double>(q[i])) * (v - static_cast<double>(q[i]));
  }
  EXPECT_LT(ours, legacy);
}

TEST(OneBit, p31_q1t_keeps_zeros_and_outliers) {
  Pool pool(1);
  test::Lcg random(3);
  std::vector<float> w(128, 0.0F);
  for (std::size_t i = 0; i < w.size(); ++i) w[i] = i % 2 == 0 ? 0.0F : random.next();
  w[37] = 6.25F;
  OneBitOptions options;
  options.keep = 1.0 / 128.0;
  const auto payload =
      round_one_bit(ConstMatrixView<float>(w.data(), 2, 64), Target::kQ1t, options, pool);
  const std::vector<float> q = decode(Target::kQ1t, 2, 64, payload);
  std::size_t zeros = 0;
  for (std::size_t i = 0; i < w.size(); ++i) {
    zeros += q[i] == 0.0F ? 1 : 0;
    if (w[i] == 0.0F) {
      EXPECT_EQ(q[i], 0.0F) << i;
    }
  }
  EXPECT_GT(zeros, w.size() / 3);
  EXPECT_NEAR(q[37], 6.25F, 0.02F);
}

/// One row at a time, the whole row updated after every column, f64; natural order, mean
/// magnitudes.
std::vector<float> plain_q1s(const Problem& p, const std::vector<std::uint8_t>& masked,
                             const HostFactor& factor) {
  const ConstMatrixView<double> u = factor.u();
  std::vector<float> q(p.w.size());
  for (std::int64_t r = 0; r < p.rows; ++r) {
    std::vector<double> x(static_cast<std::size_t>(p.n));
    for (std::int64_t c = 0; c < p.n; ++c)
      x[static_cast<std::size_t>(c)] = static_cast<double>(p.w[p.at(r, c)]);
    double scale = 0;
    for (std::int64_t c = 0; c < p.n; ++c) {
      if (c % 32 == 0) {
        double sum = 0;
        int count = 0;
        for (std::int64_t k = c; k < c + 32; ++k) {
          if (masked[p.at(r, k)] != 0) continue;
          sum += std::fabs(x[static_cast<std::size_t>(k)]);
          ++count;
        }
        scale = static_cast<double>(codec::f16_scale(static_cast<float>(sum / count)));
      }
      const double value = x[static_cast<std::size_t>(c)];
      const double kept = static_cast<double>(f16_to_f32(f32_to_f16(p.w[p.at(r, c)])));
      const double level = masked[p.at(r, c)] != 0 ? kept : value >= 0 ? scale : -scale;
      q[p.at(r, c)] = static_cast<float>(level);
      const double error = (value - level) / u(c, c);
      for (std::int64_t k = c + 1; k < p.n; ++k) x[static_cast<std::size_t>(k)] -= error * u(c, k);
    }
  }
  return q;
}

TEST(OneBit, sweep_equals_a_plain_one_that_passes_on_what_arrives_at_masked_weights) {
  Pool pool(2);
  const Problem p = make_problem({.rows = 21, .n = 288, .samples = 900, .outlier = 6});
  SweepOptions options = options_for(Target::kQ1s, 0.03);
  options.order = Order::kNatural;
  options.rung = Rung::kDiag;
  options.polish = 0;
  const auto factor = fold_host(p.hessian(), {.order = Order::kNatural}, pool);
  const SweepResult result =
      make_host_backend(pool)->sweep(p.weights(), p.hessian(), *factor, options);
  const std::vector<float> ours = decode(Target::kQ1s, p.rows, p.n, result.payload);
  const std::vector<float> halves = naive_signs(p, 181);  // 21 * 288 * 0.03
  std::vector<std::uint8_t> masked(p.w.size());
  for (std::size_t i = 0; i < masked.size(); ++i) masked[i] = halves[i] == p.w[i] ? 1 : 0;
  EXPECT_EQ(std::accumulate(masked.begin(), masked.end(), 0), 181);
  const std::vector<float> plain = plain_q1s(p, masked, *factor);
  std::size_t equal = 0;
  for (std::size_t i = 0; i < plain.size(); ++i) equal += ours[i] == plain[i] ? 1 : 0;
  // A scale may fall on the other side of a tie of halves.
  EXPECT_GE(static_cast<double>(equal), 0.99 * static_cast<double>(plain.size()));
  EXPECT_NEAR(result.output_error, test::naive_error(p, plain), 1e-3 * result.output_error);
}

TEST(OneBit, payload_has_the_planned_size_and_the_overlay_the_planned_places) {
  Pool pool(2);
  const Problem p = make_problem({.rows = 10, .n = 96, .outlier = 4});
  for (const Target target : {Target::kQ1s, Target::kQ1t}) {
    for (const double keep : {0.0, 0.01, 0.05, 0.25}) {
      for (const bool columns : {false, true}) {
        SweepOptions options = options_for(target, keep);
        options.one_bit.column_mask = columns;
        const SweepResult result = sweep(p, options, pool);
        EXPECT_EQ(result.payload.size(), one_bit_bytes(target, p.rows, p.n, options.one_bit));
        const auto rounded = round_one_bit(p.weights(), target, options.one_bit, pool);
        EXPECT_EQ(rounded.size(), result.payload.size());
        EXPECT_NEAR(result.output_error,
                    test::naive_error(p, decode(target, p.rows, p.n, result.payload)),
                    1e-6 * result.output_error);
      }
    }
  }
  EXPECT_EQ(overlay_entries(10, 96, {.keep = 0.05}), 48);
  EXPECT_EQ(overlay_entries(10, 96, {.keep = 0.05, .column_mask = true}), 40);
  EXPECT_EQ(overlay_entries(10, 96, {.keep = 1.0}), 0);
}

TEST(OneBit, bytes_do_not_depend_on_threads) {
  const Problem p = make_problem({.rows = 70, .n = 256, .samples = 300, .outlier = 5});
  for (const Target target : {Target::kQ1s, Target::kQ1t}) {
    Pool one(1);
    const auto expected = sweep(p, options_for(target, 0.02), one).payload;
    for (const int threads : {2, 7}) {
      Pool pool(threads);
      EXPECT_EQ(sweep(p, options_for(target, 0.02), pool).payload, expected) << threads;
    }
  }
}

TEST(OneBit, each_pass_of_the_polish_lowers_the_damped_loss) {
  Pool pool(2);
  const double lambda = 0.02;
  Problem p = make_problem({.rows = 24, .n = 160, .samples = 90, .outlier = 4});
  double base = 0;
  for (std::int64_t i = 0; i < p.n; ++i) base += p.h[p.at(i, i)] / static_cast<double>(p.n);
  Problem damped = p;
  for (std::int64_t i = 0; i < p.n; ++i) damped.h[p.at(i, i)] += lambda * base;
  for (const Target target : {Target::kQ1s, Target::kQ1t}) {
    SweepOptions options = options_for(target, 0.02);
    double before = std::numeric_limits<double>::infinity();
    for (int passes = 0; passes < 4; ++passes) {
      options.polish = passes;
      const auto payload = sweep(p, options, pool, lambda).payload;
      const double loss = test::naive_error(damped, decode(target, p.rows, p.n, payload));
      EXPECT_LT(loss, before) << passes;
      before = loss;
    }
  }
}

TEST(OneBit, row_rescale_lowers_the_loss_of_q1t_and_can_be_switched_off) {
  Pool pool(2);
  const Problem p = make_problem({.rows = 16, .n = 96});
  SweepOptions options = options_for(Target::kQ1t, 0.0);
  options.polish = 0;
  options.rung = Rung::kDiag;
  const double with = sweep(p, options, pool).output_error;
  options.one_bit.row_rescale = false;
  EXPECT_LT(with, sweep(p, options, pool).output_error);
}

TEST(OneBit, dead_inputs_and_singular_hessians_leave_finite_weights) {
  Pool pool(2);
  Problem p = make_problem({.rows = 8, .n = 96, .samples = 5});
  for (std::int64_t c = 0; c < 40; ++c) p.kill_channel(c);
  Problem dead = p;
  for (std::int64_t c = 0; c < p.n; ++c) dead.kill_channel(c);
  for (const Target target : {Target::kQ1s, Target::kQ1t}) {
    for (const Problem* problem : {&p, &dead}) {
      const SweepResult result = sweep(*problem, options_for(target, 0.01), pool, 0.0);
      double energy = 0;
      for (const float q : decode(target, p.rows, p.n, result.payload)) {
        ASSERT_TRUE(std::isfinite(q));
        energy += static_cast<double>(q) * static_cast<double>(q);
      }
      EXPECT_GT(energy, 0) << "a tensor whose input is dead must not become zero";
    }
  }
}

TEST(OneBit, weights_beyond_the_range_of_halves_are_refused_by_row) {
  Pool pool(1);
  Problem p = make_problem({.rows = 4, .n = 64});
  p.w[p.at(2, 5)] = 1e6F;
  for (const double keep : {0.0, 0.02}) {
    try {
      (void)sweep(p, options_for(Target::kQ1s, keep), pool);
      if (keep > 0) FAIL() << "an infinite overlay was written";
    } catch (const Error& error) {
      EXPECT_EQ(error.kind(), ErrorKind::kNumeric);
      EXPECT_NE(std::string(error.what()).find("row 2"), std::string::npos) << error.what();
    }
  }
}

}  // namespace
}  // namespace cortiq::gptq
