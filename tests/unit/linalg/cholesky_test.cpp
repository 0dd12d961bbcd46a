#include "cortiq/linalg/cholesky.hpp"

#include <gtest/gtest.h>

#include <algorithm>
#include <cmath>
#include <limits>
#include <utility>

#include "reference.hpp"

namespace cortiq::linalg {
namespace {

using test::Matrix;
using test::random_matrix;
using test::simd_levels;

constexpr double kEps = std::numeric_limits<double>::epsilon();

/// X^T X + shift*I with X [n + 3, n]; the strict upper triangle holds NaN, which nobody may read.
Matrix<double> positive_definite(std::int64_t n, double shift, std::uint64_t seed) {
  const auto x = random_matrix<double>(n + 3, n, seed);
  Matrix<double> a(n, n, 2);
  for (std::int64_t r = 0; r < n; ++r) {
    for (std::int64_t c = 0; c < n; ++c) a(r, c) = std::numeric_limits<double>::quiet_NaN();
    for (std::int64_t c = 0; c <= r; ++c) a(r, c) = r == c ? shift : 0.0;
  }
  for (std::int64_t t = 0; t < n + 3; ++t) {
    for (std::int64_t r = 0; r < n; ++r) {
      for (std::int64_t c = 0; c <= r; ++c) a(r, c) += x(t, r) * x(t, c);
    }
  }
  return a;
}

bool upper_is_untouched(const Matrix<double>& m) {
  for (std::int64_t r = 0; r < m.rows; ++r) {
    for (std::int64_t c = r + 1; c < m.cols; ++c) {
      if (!std::isnan(m(r, c))) return false;
    }
  }
  return m.gap_is_intact();
}

/// max over (r,c) of |A - L L^T| / (sum |L||L^T|): backward stability asks for at most (n + 1) eps.
double factor_residual(const Matrix<double>& a, const Matrix<double>& l) {
  double worst = 0.0;
  for (std::int64_t r = 0; r < a.rows; ++r) {
    for (std::int64_t c = 0; c <= r; ++c) {
      double sum = 0.0;
      double magnitude = 0.0;
      for (std::int64_t k = 0; k <= c; ++k) {
        sum += l(r, k) * l(c, k);
        magnitude += std::abs(l(r, k) * l(c, k));
      }
      worst = std::max(worst, std::abs(a(r, c) - sum) / magnitude);
    }
  }
  return worst;
}

TEST(Cholesky, factor_reproduces_the_matrix_at_every_size) {
  for (const SimdLevel level : simd_levels()) {
    Pool pool(1, level);
    for (const std::int64_t n : {1, 2, 7, 31, 32, 33, 63, 64, 65, 97, 129, 257, 331, 530}) {
      SCOPED_TRACE(test::shape(level, n, n, 0));
      const auto a = positive_definite(n, 1e-3, static_cast<std::uint64_t>(n));
      auto l = a;
      ASSERT_EQ(cholesky_in_place(l.view(), pool), std::nullopt);
      // (n + 1) eps each for factor and for this check.
      EXPECT_LE(factor_residual(a, l), 2.0 * static_cast<double>(n + 1) * kEps);
      EXPECT_TRUE(upper_is_untouched(l));
    }
  }
}

TEST(Cholesky, badly_scaled_matrix_keeps_the_componentwise_bound) {
  Pool pool(1);
  const std::int64_t n = 150;
  auto a = positive_definite(n, 1e-9, 4);
  for (std::int64_t r = 0; r < n; ++r) {
    for (std::int64_t c = 0; c <= r; ++c) {
      a(r, c) *= std::pow(
          10.0, 6.0 * std::sin(static_cast<double>(r)) + 6.0 * std::sin(static_cast<double>(c)));
    }
  }
  auto l = a;
  ASSERT_EQ(cholesky_in_place(l.view(), pool), std::nullopt);
  EXPECT_LE(factor_residual(a, l), 2.0 * static_cast<double>(n + 1) * kEps);
}

TEST(Cholesky, reports_the_first_bad_pivot) {
  for (const SimdLevel level : simd_levels()) {
    Pool pool(1, level);
    for (const std::int64_t bad : {0, 5, 32, 100, 199, 299}) {
      auto a = positive_definite(300, 1.0, 3);
      a(bad, bad) = -1.0;
      EXPECT_EQ(cholesky_in_place(a.view(), pool), bad);
    }
    Matrix<double> zero(40, 40);
    std::fill(zero.data.begin(), zero.data.end(), 0.0);
    EXPECT_EQ(cholesky_in_place(zero.view(), pool), 0);
  }
}

TEST(Cholesky, nan_and_infinity_make_a_pivot_fail_at_their_row) {
  for (const SimdLevel level : simd_levels()) {
    Pool pool(1, level);
    for (const double poison :
         {std::numeric_limits<double>::quiet_NaN(), std::numeric_limits<double>::infinity()}) {
      for (const auto& [row, col] :
           {std::pair<std::int64_t, std::int64_t>{0, 0}, {250, 3}, {250, 249}, {77, 77}}) {
        auto a = positive_definite(300, 1.0, 3);
        a(row, col) = poison;
        EXPECT_EQ(cholesky_in_place(a.view(), pool), row) << row << "," << col;
      }
    }
  }
}

TEST(TriangularInverse, times_the_factor_is_the_identity) {
  for (const SimdLevel level : simd_levels()) {
    Pool pool(1, level);
    for (const std::int64_t n : {1, 2, 31, 32, 33, 65, 97, 128, 257, 331, 530}) {
      SCOPED_TRACE(test::shape(level, n, n, 0));
      auto l = positive_definite(n, 1.0, static_cast<std::uint64_t>(n));
      ASSERT_EQ(cholesky_in_place(l.view(), pool), std::nullopt);
      auto x = l;
      invert_lower_in_place(x.view(), pool);
      EXPECT_TRUE(upper_is_untouched(x));
      // |X L - I| <= c n eps |X| |L| elementwise, c = 2 for inverse and check together.
      for (std::int64_t r = 0; r < n; ++r) {
        for (std::int64_t c = 0; c <= r; ++c) {
          double sum = 0.0;
          double magnitude = 0.0;
          for (std::int64_t k = c; k <= r; ++k) {
            sum += x(r, k) * l(k, c);
            magnitude += std::abs(x(r, k) * l(k, c));
          }
          const double error = std::abs(sum - (r == c ? 1.0 : 0.0));
          ASSERT_LE(error, 2.0 * static_cast<double>(n + 2) * kEps * magnitude) << r << "," << c;
        }
      }
    }
  }
}

TEST(Fold, thread_count_does_not_change_a_bit) {
  for (const SimdLevel level : simd_levels()) {
    auto one = positive_definite(613, 1.0, 9);
    for (std::int64_t r = 0; r < 613; ++r) {
      for (std::int64_t c = r + 1; c < 613; ++c) one(r, c) = 0.0;
    }
    const auto start = one;
    const auto fold = [](Matrix<double>& m, Pool& pool) {
      ASSERT_EQ(cholesky_in_place(m.view(), pool), std::nullopt);
      invert_lower_in_place(m.view(), pool);
    };
    Pool single(1, level);
    fold(one, single);
    for (const int threads : {2, 7}) {
      Pool pool(threads, level);
      auto many = start;
      fold(many, pool);
      EXPECT_EQ(one.data, many.data) << threads << " threads, " << simd_name(level);
    }
  }
}

}  // namespace
}  // namespace cortiq::linalg
