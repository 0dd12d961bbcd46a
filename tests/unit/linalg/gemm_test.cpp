#include "cortiq/linalg/gemm.hpp"

#include <gtest/gtest.h>

#include <cmath>
#include <limits>

#include "reference.hpp"

namespace cortiq::linalg {
namespace {

using test::element;
using test::Matrix;
using test::random_matrix;
using test::simd_levels;

void gemm(Trans ta, Trans tb, float alpha, const Matrix<float>& a, const Matrix<float>& b,
          float beta, Matrix<float>& c, Pool& pool) {
  gemm_f32(ta, tb, alpha, a.view(), b.view(), beta, c.view(), pool);
}
void gemm(Trans ta, Trans tb, double alpha, const Matrix<double>& a, const Matrix<double>& b,
          double beta, Matrix<double>& c, Pool& pool) {
  gemm_f64(ta, tb, alpha, a.view(), b.view(), beta, c.view(), pool);
}

/// |computed - exact| <= (k + 4) * eps * (sum |a||b| |alpha| + |beta c|): the standard bound of a
/// dot product in any order, with four roundings for scaling.
template <typename T>
void expect_product(Trans ta, Trans tb, T alpha, const Matrix<T>& a, const Matrix<T>& b, T beta,
                    const Matrix<T>& before, const Matrix<T>& after, std::int64_t k) {
  const double eps = static_cast<double>(std::numeric_limits<T>::epsilon());
  for (std::int64_t r = 0; r < after.rows; ++r) {
    for (std::int64_t c = 0; c < after.cols; ++c) {
      double sum = 0.0;
      double magnitude = 0.0;
      for (std::int64_t p = 0; p < k; ++p) {
        const double product = element(a, ta, r, p) * element(b, tb, p, c);
        sum += product;
        magnitude += std::abs(product);
      }
      const double old =
          beta == T(0) ? 0.0 : static_cast<double>(beta) * static_cast<double>(before(r, c));
      const double expected = static_cast<double>(alpha) * sum + old;
      const double bound = static_cast<double>(k + 4) * eps *
                           (std::abs(static_cast<double>(alpha)) * magnitude + std::abs(old));
      ASSERT_LE(std::abs(static_cast<double>(after(r, c)) - expected), bound)
          << "at " << r << "," << c;
    }
  }
  EXPECT_TRUE(after.gap_is_intact());
}

template <typename T>
void check(SimdLevel level, Trans ta, Trans tb, std::int64_t m, std::int64_t n, std::int64_t k,
           T alpha, T beta) {
  SCOPED_TRACE(test::shape(level, m, n, k) + " trans " + std::to_string(ta == Trans::kYes) +
               std::to_string(tb == Trans::kYes));
  const auto a = ta == Trans::kYes ? random_matrix<T>(k, m, 1, 3) : random_matrix<T>(m, k, 1, 3);
  const auto b = tb == Trans::kYes ? random_matrix<T>(n, k, 2, 1) : random_matrix<T>(k, n, 2, 1);
  const auto before = random_matrix<T>(m, n, 3, 5);
  Matrix<T> after = before;
  Pool pool(1, level);
  gemm(ta, tb, alpha, a, b, beta, after, pool);
  expect_product(ta, tb, alpha, a, b, beta, before, after, k);
}

constexpr Trans kBoth[] = {Trans::kNo, Trans::kYes};

template <typename T>
class GemmTest : public testing::Test {};
using ElementTypes = testing::Types<float, double>;
TYPED_TEST_SUITE(GemmTest, ElementTypes);

TYPED_TEST(GemmTest, all_transpositions_match_plain_loops_at_tile_edges) {
  using T = TypeParam;
  const std::int64_t sizes[] = {1, 3, 5, 6, 7, 13, 14, 15, 16, 17, 31, 33};
  for (const SimdLevel level : simd_levels()) {
    for (const Trans ta : kBoth) {
      for (const Trans tb : kBoth) {
        for (const std::int64_t m : sizes) {
          for (const std::int64_t n : sizes) check<T>(level, ta, tb, m, n, 11, T(1), T(1));
        }
      }
    }
  }
}

TYPED_TEST(GemmTest, depths_around_the_block_size_are_summed_once) {
  using T = TypeParam;
  for (const SimdLevel level : simd_levels()) {
    for (const std::int64_t k : {1, 2, 255, 256, 257, 383, 384, 385, 773}) {
      check<T>(level, Trans::kNo, Trans::kYes, 19, 35, k, T(-1), T(1));
      check<T>(level, Trans::kYes, Trans::kNo, 9, 16, k, T(0.5), T(0));
    }
  }
}

TYPED_TEST(GemmTest, sizes_beyond_one_task_tile_match) {
  using T = TypeParam;
  for (const SimdLevel level : simd_levels()) {
    check<T>(level, Trans::kNo, Trans::kNo, 397, 521, 67, T(-1), T(1));
    check<T>(level, Trans::kYes, Trans::kYes, 211, 1033, 37, T(2), T(-0.25));
    check<T>(level, Trans::kNo, Trans::kNo, 3, 4133, 5, T(1), T(1));
  }
}

TYPED_TEST(GemmTest, alpha_and_beta_scale_as_documented) {
  using T = TypeParam;
  for (const SimdLevel level : simd_levels()) {
    for (const T alpha : {T(0), T(1), T(-1), T(0.375)}) {
      for (const T beta : {T(0), T(1), T(-1), T(0.625)}) {
        check<T>(level, Trans::kNo, Trans::kNo, 13, 18, 9, alpha, beta);
      }
    }
  }
}

TYPED_TEST(GemmTest, beta_zero_overwrites_nan) {
  using T = TypeParam;
  for (const SimdLevel level : simd_levels()) {
    Pool pool(1, level);
    for (const std::int64_t k : {0, 4, 700}) {
      const auto a = random_matrix<T>(13, k, 1);
      const auto b = random_matrix<T>(k, 19, 2);
      Matrix<T> c(13, 19);
      for (T& value : c.data) value = std::numeric_limits<T>::quiet_NaN();
      gemm(Trans::kNo, Trans::kNo, T(1), a, b, T(0), c, pool);
      for (const T value : c.data) ASSERT_TRUE(std::isfinite(value)) << "k=" << k;
    }
  }
}

TYPED_TEST(GemmTest, empty_depth_only_scales_c) {
  using T = TypeParam;
  Pool pool(1);
  const Matrix<T> a(2, 0);
  const Matrix<T> b(0, 3);
  Matrix<T> c = random_matrix<T>(2, 3, 7);
  const Matrix<T> before = c;
  gemm(Trans::kNo, Trans::kNo, T(1), a, b, T(2), c, pool);
  for (std::size_t i = 0; i < c.data.size(); ++i) EXPECT_EQ(c.data[i], T(2) * before.data[i]);
}

TYPED_TEST(GemmTest, nan_and_infinity_reach_exactly_their_row_and_column) {
  using T = TypeParam;
  for (const SimdLevel level : simd_levels()) {
    Pool pool(1, level);
    auto a = random_matrix<T>(17, 21, 1);
    auto b = random_matrix<T>(21, 23, 2);
    a(16, 20) = std::numeric_limits<T>::quiet_NaN();
    b(3, 22) = std::numeric_limits<T>::infinity();
    Matrix<T> c(17, 23);
    gemm(Trans::kNo, Trans::kNo, T(1), a, b, T(0), c, pool);
    for (std::int64_t r = 0; r < 17; ++r) {
      for (std::int64_t q = 0; q < 23; ++q) {
        EXPECT_EQ(std::isnan(c(r, q)), r == 16) << r << "," << q;
        EXPECT_EQ(std::isinf(c(r, q)), q == 22 && r != 16) << r << "," << q;
      }
    }
  }
}

TYPED_TEST(GemmTest, thread_count_does_not_change_a_bit) {
  using T = TypeParam;
  for (const SimdLevel level : simd_levels()) {
    const auto a = random_matrix<T>(401, 307, 1);
    const auto b = random_matrix<T>(613, 307, 2);
    const auto before = random_matrix<T>(401, 613, 3);
    Matrix<T> one = before;
    Pool single(1, level);
    gemm(Trans::kNo, Trans::kYes, T(-1), a, b, T(1), one, single);
    for (const int threads : {2, 7}) {
      Pool pool(threads, level);
      Matrix<T> many = before;
      gemm(Trans::kNo, Trans::kYes, T(-1), a, b, T(1), many, pool);
      EXPECT_EQ(one.data, many.data) << threads << " threads, " << simd_name(level);
    }
  }
}

}  // namespace
}  // namespace cortiq::linalg
