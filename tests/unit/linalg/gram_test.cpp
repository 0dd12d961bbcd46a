#include "cortiq/linalg/gram.hpp"

#include <gtest/gtest.h>

#include <algorithm>
#include <array>
#include <cmath>
#include <limits>

#include "reference.hpp"

namespace cortiq::linalg {
namespace {

using test::Matrix;
using test::random_matrix;
using test::simd_levels;

Matrix<double> gram_of(const Matrix<float>& x, const Matrix<double>& start, Pool& pool) {
  Matrix<double> h = start;
  gram_accumulate(x.view(), h.view(), pool);
  return h;
}

TEST(Gram, adds_the_upper_triangle_of_the_second_moments) {
  for (const SimdLevel level : simd_levels()) {
    Pool pool(1, level);
    for (const std::int64_t n : {1, 5, 6, 16, 17, 97, 530}) {
      for (const std::int64_t tokens : {1, 255, 257, 600}) {
        SCOPED_TRACE(test::shape(level, n, n, tokens));
        const auto x = random_matrix<float>(tokens, n, 1, 2);
        const auto before = random_matrix<double>(n, n, 2, 3);
        const auto h = gram_of(x, before, pool);
        EXPECT_TRUE(h.gap_is_intact());
        // Blocks of 256 products in f32: |error| <= 256 * eps_f32 * sum |x||x|.
        const double eps = 256.0 * static_cast<double>(std::numeric_limits<float>::epsilon());
        for (std::int64_t r = 0; r < n; ++r) {
          for (std::int64_t c = 0; c < r; ++c) ASSERT_EQ(h(r, c), before(r, c)) << r << "," << c;
          for (std::int64_t c = r; c < n; c += 1 + (c > r + 40 ? 13 : 0)) {
            double sum = 0.0;
            double magnitude = 0.0;
            for (std::int64_t t = 0; t < tokens; ++t) {
              const double product = static_cast<double>(x(t, r)) * static_cast<double>(x(t, c));
              sum += product;
              magnitude += std::abs(product);
            }
            ASSERT_NEAR(h(r, c), before(r, c) + sum, eps * magnitude + 1e-14) << r << "," << c;
          }
        }
      }
    }
  }
}

TEST(Gram, cross_products_equal_a_plain_double_loop_for_any_number_of_threads) {
  for (const SimdLevel level : simd_levels()) {
    for (const auto& [m, n, tokens] :
         {std::array<std::int64_t, 3>{1, 1, 1}, {7, 33, 300}, {130, 65, 513}}) {
      SCOPED_TRACE(test::shape(level, m, n, tokens));
      const auto x = random_matrix<float>(tokens, m, 1, 2);
      const auto y = random_matrix<float>(tokens, n, 4, 3);
      const auto before = random_matrix<double>(m, n, 2, 3);
      Matrix<double> got = before;
      Matrix<double> other = before;
      Pool one(1, level);
      Pool many(7, level);
      cross_accumulate(x.view(), y.view(), got.view(), one);
      cross_accumulate(x.view(), y.view(), other.view(), many);
      EXPECT_EQ(got.data, other.data);
      EXPECT_TRUE(got.gap_is_intact());
      const double eps = 256.0 * static_cast<double>(std::numeric_limits<float>::epsilon());
      for (std::int64_t r = 0; r < m; ++r) {
        for (std::int64_t c = 0; c < n; ++c) {
          double sum = before(r, c);
          double magnitude = 0;
          for (std::int64_t t = 0; t < tokens; ++t) {
            const double product = static_cast<double>(x(t, r)) * static_cast<double>(y(t, c));
            sum += product;
            magnitude += std::abs(product);
          }
          ASSERT_NEAR(got(r, c), sum, eps * magnitude + 1e-14) << r << "," << c;
        }
      }
    }
  }
}

TEST(Gram, splitting_the_tokens_at_block_boundaries_changes_no_bit) {
  for (const SimdLevel level : simd_levels()) {
    Pool pool(2, level);
    const auto x = random_matrix<float>(3 * kGramBlockTokens + 41, 75, 5);
    const Matrix<double> zero = [] {
      Matrix<double> m(75, 75);
      std::fill(m.data.begin(), m.data.end(), 0.0);
      return m;
    }();
    const auto whole = gram_of(x, zero, pool);
    Matrix<double> parts = zero;
    const std::int64_t cut = 2 * kGramBlockTokens;
    gram_accumulate(x.view().block(0, 0, cut, 75), parts.view(), pool);
    gram_accumulate(x.view().block(cut, 0, x.rows - cut, 75), parts.view(), pool);
    EXPECT_EQ(whole.data, parts.data) << simd_name(level);
  }
}

TEST(Gram, a_block_is_summed_in_f32_and_the_blocks_in_f64) {
  // 2^-12 squared vanishes beside 1 in f32 within a block, but not across blocks in f64.
  for (const SimdLevel level : simd_levels()) {
    Pool pool(1, level);
    Matrix<float> x(kGramBlockTokens + 1, 1);
    std::fill(x.data.begin(), x.data.end(), 0.0F);
    x(0, 0) = 1.0F;
    x(1, 0) = 0x1p-13F;
    x(kGramBlockTokens, 0) = 0x1p-13F;
    Matrix<double> h(1, 1);
    h(0, 0) = 0.0;
    gram_accumulate(x.view(), h.view(), pool);
    EXPECT_EQ(h(0, 0), 1.0 + 0x1p-26) << simd_name(level);
  }
}

TEST(Gram, thread_count_does_not_change_a_bit) {
  for (const SimdLevel level : simd_levels()) {
    const auto x = random_matrix<float>(700, 433, 5);
    const auto start = random_matrix<double>(433, 433, 6);
    Pool single(1, level);
    const auto one = gram_of(x, start, single);
    for (const int threads : {2, 7}) {
      Pool pool(threads, level);
      EXPECT_EQ(one.data, gram_of(x, start, pool).data) << threads << " " << simd_name(level);
    }
  }
}

TEST(Gram, no_tokens_leave_h_unchanged) {
  Pool pool(1);
  const auto before = random_matrix<double>(9, 9, 1);
  EXPECT_EQ(gram_of(Matrix<float>(0, 9), before, pool).data, before.data);
}

TEST(Gram, mirror_copies_the_upper_triangle_and_keeps_it) {
  Pool pool(2);
  for (const std::int64_t n : {1, 2, 31, 32, 33, 101}) {
    const auto before = random_matrix<double>(n, n, 8, 2);
    Matrix<double> h = before;
    mirror_upper(h.view(), pool);
    for (std::int64_t r = 0; r < n; ++r) {
      for (std::int64_t c = 0; c < n; ++c) {
        ASSERT_EQ(h(r, c), before(std::min(r, c), std::max(r, c))) << n << ": " << r << "," << c;
      }
    }
    EXPECT_TRUE(h.gap_is_intact());
  }
}

}  // namespace
}  // namespace cortiq::linalg
