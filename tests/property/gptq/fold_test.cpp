// Fold properties: gptq.md section 12, P10, P12, P32; order of docs/quality.md section 3.
#include <gtest/gtest.h>

#include <cstring>

#include "problems.hpp"

namespace cortiq::gptq {
namespace {

using test::make_problem;
using test::Problem;

/// gptq.md section 3.2 as written there, serially: Cholesky of H_d, inverse of the factor, H_d^-1,
/// Cholesky of that.
std::vector<double> slow_fold(const Problem& p, const HostFactor& factor) {
  const std::int64_t n = p.n;
  std::vector<double> a(p.h.size());
  for (std::int64_t i = 0; i < n; ++i) {
    for (std::int64_t j = 0; j < n; ++j) {
      const std::int64_t ci = factor.elimination[static_cast<std::size_t>(i)];
      const std::int64_t cj = factor.elimination[static_cast<std::size_t>(j)];
      const bool dead =
          factor.dead[static_cast<std::size_t>(ci)] + factor.dead[static_cast<std::size_t>(cj)] > 0;
      a[p.at(i, j)] = dead ? (i == j ? 1.0 : 0.0) : p.h[p.at(ci, cj)];
      if (i == j) a[p.at(i, j)] += factor.damping;
    }
  }
  const auto cholesky = [n, &p](std::vector<double> m) {
    for (std::int64_t j = 0; j < n; ++j) {
      for (std::int64_t i = j; i < n; ++i) {
        double s = m[p.at(i, j)];
        for (std::int64_t k = 0; k < j; ++k) s -= m[p.at(i, k)] * m[p.at(j, k)];
        m[p.at(i, j)] = i == j ? std::sqrt(s) : s / m[p.at(j, j)];
      }
      for (std::int64_t i = 0; i < j; ++i) m[p.at(i, j)] = 0;
    }
    return m;
  };
  const std::vector<double> l = cholesky(a);
  std::vector<double> inverse(p.h.size(), 0.0);  // L^-1
  for (std::int64_t j = 0; j < n; ++j) {
    for (std::int64_t i = j; i < n; ++i) {
      double s = i == j ? 1.0 : 0.0;
      for (std::int64_t k = j; k < i; ++k) s -= l[p.at(i, k)] * inverse[p.at(k, j)];
      inverse[p.at(i, j)] = s / l[p.at(i, i)];
    }
  }
  std::vector<double> h_inverse(p.h.size(), 0.0);
  for (std::int64_t i = 0; i < n; ++i) {
    for (std::int64_t j = 0; j < n; ++j) {
      for (std::int64_t k = std::max(i, j); k < n; ++k)
        h_inverse[p.at(i, j)] += inverse[p.at(k, i)] * inverse[p.at(k, j)];
    }
  }
  return cholesky(h_inverse);  // lower M with H_d^-1 = M M^T; U = M^T
}

double largest_relative_difference(const HostFactor& factor, const std::vector<double>& lower,
                                   const Problem& p) {
  double worst = 0;
  for (std::int64_t i = 0; i < p.n; ++i) {
    double largest = 0;
    double difference = 0;
    for (std::int64_t j = i; j < p.n; ++j) {
      largest = std::max(largest, std::fabs(lower[p.at(j, i)]));
      difference = std::max(difference, std::fabs(lower[p.at(j, i)] - factor.u()(i, j)));
    }
    worst = std::max(worst, difference / largest);
  }
  return worst;
}

TEST(FoldProperty, multiple_of_the_identity_gives_its_inverse_root) {  // P10
  Problem p{0, 40, {}, std::vector<double>(1600, 0.0)};
  for (std::int64_t i = 0; i < 40; ++i) p.h[p.at(i, i)] = 2.0;
  Pool pool(1);
  const auto factor = fold_host(p.hessian(), {.lambda = 0, .order = Order::kNatural}, pool);
  for (std::int64_t i = 0; i < 40; ++i) {
    for (std::int64_t j = 0; j < 40; ++j)
      EXPECT_NEAR(factor->u()(i, j), i == j ? std::sqrt(0.5) : 0.0, 1e-15);
  }
}

TEST(FoldProperty, equals_the_double_cholesky_with_dead_channels_and_few_samples) {  // P12, P32
  Pool pool(2);
  for (const auto order : {Order::kNatural, Order::kAct, Order::kGroup}) {
    for (const int samples : {40, 400}) {
      Problem p =
          make_problem({.rows = 1, .n = samples == 40 ? 97 : 160, .samples = samples, .seed = 7});
      p.kill_channel(3);
      p.kill_channel(41);
      const auto factor = fold_host(p.hessian(), {.lambda = 0.01, .order = order}, pool);
      ASSERT_FALSE(factor->identity);
      EXPECT_EQ(factor->dead_channels, 2);
      EXPECT_LE(largest_relative_difference(*factor, slow_fold(p, *factor), p), 1e-9)
          << "n " << p.n;
    }
  }
}

TEST(FoldProperty, same_bits_for_every_thread_count) {  // P12
  for (const auto& [n, samples] : {std::pair{97, 40}, std::pair{130, 400}, std::pair{300, 200}}) {
    Problem p = make_problem({.rows = 1, .n = n, .samples = samples, .seed = 3});
    p.kill_channel(5);
    Pool one(1);
    const auto first = fold_host(p.hessian(), {}, one);
    for (const int threads : {2, 3, 7}) {
      Pool pool(threads);
      const auto other = fold_host(p.hessian(), {}, pool);
      EXPECT_EQ(std::memcmp(first->values.get(), other->values.get(),
                            sizeof(double) * static_cast<std::size_t>(n * n)),
                0)
          << "n " << n << " threads " << threads;
    }
  }
}

TEST(FoldProperty, does_not_depend_on_the_scale_of_the_hessian) {
  const Problem p = make_problem({.rows = 1, .n = 64, .seed = 11});
  Pool pool(1);
  const auto factor = fold_host(p.hessian(), {.order = Order::kNatural}, pool);
  Problem tiny = p;
  for (double& v : tiny.h) v *= 0x1p-80;
  // The floor of the base is absolute (gptq.md 3.1), so the base is passed.
  const auto scaled = fold_host(
      tiny.hessian(), {.base = factor->damping / 0.01 * 0x1p-80, .order = Order::kNatural}, pool);
  for (std::int64_t i = 0; i < 64; ++i) {
    for (std::int64_t j = i; j < 64; ++j)
      EXPECT_NEAR(scaled->u()(i, j) * 0x1p-40, factor->u()(i, j), 1e-12);
  }
}

TEST(FoldProperty, indefinite_hessian_reports_all_tries_and_ends_as_the_identity) {
  Problem p{0, 32, {}, std::vector<double>(1024, 5.0)};
  for (std::int64_t i = 0; i < 32; ++i)
    p.h[p.at(i, i)] = 0.1;  // 5 off the diagonal: no damping up to 10*0.1 helps
  Pool pool(1);
  const auto factor = fold_host(p.hessian(), {.lambda = 0}, pool);
  EXPECT_TRUE(factor->identity);
  ASSERT_EQ(factor->lambda_tried.size(), 7U);
  EXPECT_EQ(factor->lambda_tried[0], 0.0);
  EXPECT_NEAR(factor->lambda_tried[6], 10.0, 1e-9);
  EXPECT_EQ(factor->u()(3, 3), 1.0);
  EXPECT_EQ(factor->u()(3, 4), 0.0);
}

}  // namespace
}  // namespace cortiq::gptq
