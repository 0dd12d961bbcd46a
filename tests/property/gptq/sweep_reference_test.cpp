// The blocked sweep against the plain one of reference_sweep.hpp (P13), and docs/quality.md
// section 9.
#include <gtest/gtest.h>

#include "reference_sweep.hpp"

namespace cortiq::gptq {
namespace {

using test::Choice;
using test::make_problem;
using test::Problem;
using test::ReferenceSweep;

struct Recipe {
  Target target;
  Q2tpRule rule;
  Order order;
  Rung rung;
  LadderFit ladder;
  Choice choice;
};

constexpr Recipe kRecipes[] = {
    {Target::kQ4tp, Q2tpRule::kPlaced, Order::kNatural, Rung::kDiag, LadderFit::kConverter,
     Choice::kWindow},
    {Target::kQ4tp, Q2tpRule::kPlaced, Order::kNatural, Rung::kSim, LadderFit::kConverter,
     Choice::kSimCoarse},
    {Target::kQ4tp, Q2tpRule::kPlaced, Order::kGroup, Rung::kSim, LadderFit::kFit,
     Choice::kSimCoarse},
    {Target::kQ2tp, Q2tpRule::kCortiq, Order::kNatural, Rung::kDiag, LadderFit::kConverter,
     Choice::kWindow},
    {Target::kQ2tp, Q2tpRule::kPlaced, Order::kNatural, Rung::kDiag, LadderFit::kConverter,
     Choice::kFull},
    {Target::kQ2tp, Q2tpRule::kPlaced, Order::kGroup, Rung::kSim, LadderFit::kFit,
     Choice::kSimCoarse},
    {Target::kQ2tp, Q2tpRule::kPlaced, Order::kGroup, Rung::kDiag, LadderFit::kFit, Choice::kFull},
    {Target::kQ4tp, Q2tpRule::kPlaced, Order::kGroup, Rung::kAll, LadderFit::kFit,
     Choice::kSimAll},
    {Target::kQ2tp, Q2tpRule::kPlaced, Order::kNatural, Rung::kAll, LadderFit::kConverter,
     Choice::kSimAll},
};

SweepOptions options_of(const Recipe& s) {
  return {.target = s.target, .order = s.order, .rung = s.rung, .ladder = s.ladder, .rule = s.rule};
}

/// Share of codes equal to the reference's, swept with the ladders that the product stored.
double equal_share(const Recipe& s, const Problem& p, const HostFactor& factor,
                   const test::Unpacked& u) {
  const ReferenceSweep reference(factor, test::diagonal_of(p), s.target == Target::kQ4tp, s.choice);
  std::int64_t equal = 0;
  for (std::int64_t r = 0; r < p.rows; ++r) {
    const auto row =
        reference.row(std::span(p.w).subspan(p.at(r, 0), static_cast<std::size_t>(p.n)),
                      u.params[static_cast<std::size_t>(r)]);
    for (std::int64_t c = 0; c < p.n; ++c)
      equal += row.codes[static_cast<std::size_t>(c)] == u.codes[p.at(r, c)] ? 1 : 0;
  }
  return static_cast<double>(equal) / static_cast<double>(p.rows * p.n);
}

// The search ranks scales in f32: a near-tie may fall the other way, and the rest of that row then
// differs.
constexpr double kReferenceShare = 0.99;

TEST(SweepReference, blocked_sweep_equals_the_plain_one_for_every_kernel) {
  Problem p = make_problem({.rows = 37, .n = 288, .samples = 500, .factors = 12, .seed = 21});
  p.kill_channel(40);
  for (const SimdLevel simd : {SimdLevel::kPortable, SimdLevel::kAvx2, SimdLevel::kAvx512}) {
    Pool pool(2, simd);
    if (pool.simd() != simd) continue;
    const auto backend = make_host_backend(pool);
    for (const Recipe& s : kRecipes) {
      SCOPED_TRACE(::testing::Message() << simd_name(simd) << " setup " << (&s - kRecipes));
      const auto factor = fold_host(p.hessian(), {.order = s.order}, pool);
      const SweepResult result = backend->sweep(p.weights(), p.hessian(), *factor, options_of(s));
      const auto u = test::unpack(s.target, p.rows, p.n, result.payload);
      EXPECT_GE(equal_share(s, p, *factor, u), kReferenceShare);
    }
  }
}

TEST(SweepReference, reported_error_is_the_error_of_the_decoded_payload) {
  Problem p = make_problem({.rows = 19, .n = 160, .samples = 300, .factors = 8, .seed = 5});
  p.kill_channel(33);
  p.kill_channel(34);
  Pool pool(2);
  const auto backend = make_host_backend(pool);
  for (const Recipe& s : kRecipes) {
    for (const bool debias : {false, true}) {
      SCOPED_TRACE(::testing::Message() << "setup " << (&s - kRecipes) << " debias " << debias);
      const auto factor = backend->fold(p.hessian(), {.order = s.order});
      SweepOptions options = options_of(s);
      options.debias = debias;
      const SweepResult result = backend->sweep(p.weights(), p.hessian(), *factor, options);
      const std::vector<float> q = test::decode(s.target, p.rows, p.n, result.payload);
      const OutputError direct = output_error(
          p.weights(), ConstMatrixView<float>(q.data(), p.rows, p.n), p.hessian(), pool);
      EXPECT_NEAR(direct.error, test::naive_error(p, q), 1e-9 * direct.error);
      EXPECT_NEAR(direct.energy, test::naive_error(p, std::vector<float>(q.size(), 0.0F)),
                  1e-9 * direct.energy);
      EXPECT_NEAR(result.output_error, direct.error, 1e-5 * direct.error);
      EXPECT_NEAR(result.output_energy, direct.energy, 1e-9 * direct.energy);
    }
  }
}

/// Damped loss of residual columns [0, end) of a row when the later ones are chosen freely: sum of
/// e^2 up to there.
TEST(SweepReference, residuals_sum_to_the_damped_loss) {  // docs/quality.md section 9, first row
  const Problem p = make_problem({.rows = 4, .n = 96, .samples = 300, .seed = 9});
  Pool pool(1);
  const auto factor = fold_host(p.hessian(), {.order = Order::kNatural}, pool);
  const ReferenceSweep reference(*factor, test::diagonal_of(p), true, Choice::kSimAll);
  for (std::int64_t r = 0; r < p.rows; ++r) {
    const auto w = std::span(p.w).subspan(p.at(r, 0), 96);
    const codec::LadderParams params = codec::q4tp_converter_row(w, {});
    const codec::Ladder ladder = codec::q4tp_ladder(params);
    const auto row = reference.row(w, params);
    std::vector<double> e(96);
    for (std::size_t c = 0; c < 96; ++c) {
      const int rung = std::max(row.rungs[c / 32], 0);
      e[c] = static_cast<double>(w[c]) -
             (row.codes[c] - 8) * static_cast<double>(ladder[static_cast<std::size_t>(rung)]);
    }
    double damped = 0;
    for (std::int64_t i = 0; i < 96; ++i) {
      for (std::int64_t j = 0; j < 96; ++j) {
        const double h = p.h[p.at(i, j)] + (i == j ? factor->damping : 0.0);
        damped += e[static_cast<std::size_t>(i)] * h * e[static_cast<std::size_t>(j)];
      }
    }
    EXPECT_NEAR(row.loss, damped, 1e-10 * damped);
  }
}

TEST(SweepReference,
     coarse_to_fine_loses_next_to_nothing_against_all_rungs_and_never_to_the_window) {
  const Problem p = make_problem(
      {.rows = 24, .n = 32, .samples = 300, .seed = 13});  // one group: the same state for all
  Pool pool(1);
  const auto factor = fold_host(p.hessian(), {.order = Order::kNatural}, pool);
  double sums[3] = {0, 0, 0};
  for (std::int64_t r = 0; r < p.rows; ++r) {
    const auto w = std::span(p.w).subspan(p.at(r, 0), 32);
    codec::LadderParams params = codec::q4tp_converter_row(w, {});
    params.lo = f32_to_f16(f16_to_f32(params.lo) - 1.0F);
    params.step = f32_to_f16(0.05F);
    const Choice choices[] = {Choice::kSimAll, Choice::kSimCoarse, Choice::kWindow};
    double loss[3];
    for (int k = 0; k < 3; ++k) {
      loss[k] = ReferenceSweep(*factor, test::diagonal_of(p), true, choices[k]).row(w, params).loss;
      sums[k] += loss[k];
    }
    EXPECT_LE(loss[0], loss[1]);
    EXPECT_LE(loss[0], loss[2]);
  }
  EXPECT_LE(sums[1],
            1.1 * sums[0]);  // the loss is jagged: fewer draws find a slightly higher minimum
  EXPECT_LE(sums[1], sums[2]);
}

TEST(SweepReference,
     group_order_with_an_equal_diagonal_is_natural_order) {  // docs/quality.md section 9
  Problem p = make_problem({.rows = 20, .n = 128, .samples = 300, .loud = -1, .seed = 17});
  std::vector<double> root;
  for (std::int64_t i = 0; i < p.n; ++i) root.push_back(std::sqrt(p.h[p.at(i, i)]));
  for (std::int64_t i = 0; i < p.n; ++i) {
    for (std::int64_t j = 0; j < p.n; ++j) {
      p.h[p.at(i, j)] = i == j ? 1.0
                               : p.h[p.at(i, j)] / (root[static_cast<std::size_t>(i)] *
                                                    root[static_cast<std::size_t>(j)]);
    }
  }
  Pool pool(2);
  const auto backend = make_host_backend(pool);
  for (const Target target : {Target::kQ4tp, Target::kQ2tp}) {
    std::vector<std::byte> payloads[2];
    for (int k = 0; k < 2; ++k) {
      const Order order = k == 0 ? Order::kNatural : Order::kGroup;
      const auto factor = backend->fold(p.hessian(), {.order = order});
      payloads[k] =
          backend->sweep(p.weights(), p.hessian(), *factor, {.target = target, .order = order})
              .payload;
    }
    EXPECT_EQ(payloads[0], payloads[1]);
  }
}

}  // namespace
}  // namespace cortiq::gptq
