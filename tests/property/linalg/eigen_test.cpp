// The factor, the inverse and the products against Eigen, which shares no code with them.
#include <gtest/gtest.h>

#include <Eigen/Dense>
#include <cstdint>
#include <random>

#include "cortiq/linalg/cholesky.hpp"
#include "cortiq/linalg/gemm.hpp"
#include "cortiq/linalg/gram.hpp"

namespace {

using namespace cortiq;
using RowMajor = Eigen::Matrix<double, Eigen::Dynamic, Eigen::Dynamic, Eigen::RowMajor>;
using RowMajorF = Eigen::Matrix<float, Eigen::Dynamic, Eigen::Dynamic, Eigen::RowMajor>;

constexpr double kEpsilon = 2.3e-16;

MatrixView<double> view(RowMajor& m) { return {m.data(), m.rows(), m.cols()}; }
ConstMatrixView<double> view(const RowMajor& m) { return {m.data(), m.rows(), m.cols()}; }
ConstMatrixView<float> view(const RowMajorF& m) { return {m.data(), m.rows(), m.cols()}; }

template <typename M>
M random_matrix(std::int64_t rows, std::int64_t cols, unsigned seed) {
  std::mt19937 engine(seed);
  std::uniform_real_distribution<typename M::Scalar> uniform(-1, 1);
  M m(rows, cols);
  for (std::int64_t i = 0; i < rows; ++i) {
    for (std::int64_t j = 0; j < cols; ++j) m(i, j) = uniform(engine);
  }
  return m;
}

/// X X^T of a square X has a condition number near n^2; the shift bounds it to about 4n.
RowMajor positive_definite(std::int64_t n) {
  const RowMajor x = random_matrix<RowMajor>(n, n, 7);
  RowMajor a = x * x.transpose();
  a.diagonal().array() += 0.3;
  return a;
}

class AgainstEigen : public testing::TestWithParam<std::int64_t> {};

TEST_P(AgainstEigen, CholeskyFactorAndItsResidualAgree) {
  const std::int64_t n = GetParam();
  const RowMajor a = positive_definite(n);
  RowMajor ours = a;
  Pool pool(2);
  ASSERT_FALSE(linalg::cholesky_in_place(view(ours), pool));
  const RowMajor l = ours.triangularView<Eigen::Lower>();
  // Backward error of any stable factorization: at most about n ulps of the matrix.
  EXPECT_LE((l * l.transpose() - a).norm(), static_cast<double>(n) * kEpsilon * a.norm());
  const Eigen::LLT<RowMajor> reference(a);
  ASSERT_EQ(reference.info(), Eigen::Success);
  const RowMajor expected = reference.matrixL();
  EXPECT_LE((l - expected).norm(), 1e-10 * expected.norm());
  const RowMajor above = (ours - a).triangularView<Eigen::StrictlyUpper>();
  EXPECT_EQ(above.norm(), 0.0);
}

TEST_P(AgainstEigen, TriangularInverseAndItsResidualAgree) {
  const std::int64_t n = GetParam();
  const RowMajor l = Eigen::LLT<RowMajor>(positive_definite(n)).matrixL();
  RowMajor ours = l;
  Pool pool(2);
  linalg::invert_lower_in_place(view(ours), pool);
  const RowMajor residual = ours * l - RowMajor::Identity(n, n);
  EXPECT_LE(residual.norm(), static_cast<double>(n) * kEpsilon * ours.norm() * l.norm());
  const RowMajor expected = l.triangularView<Eigen::Lower>().solve(RowMajor::Identity(n, n));
  EXPECT_LE((ours - expected).norm(), 1e-10 * expected.norm());
}

TEST_P(AgainstEigen, FoldOfAMatrixInvertsIt) {
  const std::int64_t n = GetParam();
  const RowMajor a = positive_definite(n);
  RowMajor x = a;
  Pool pool(2);
  ASSERT_FALSE(linalg::cholesky_in_place(view(x), pool));
  linalg::invert_lower_in_place(view(x), pool);
  const RowMajor inverse_factor = x.triangularView<Eigen::Lower>();
  const RowMajor expected = a.ldlt().solve(RowMajor::Identity(n, n));
  EXPECT_LE((inverse_factor.transpose() * inverse_factor - expected).norm(),
            1e-9 * expected.norm());
}

TEST_P(AgainstEigen, ProductsOfEveryTranspositionAgree) {
  using linalg::Trans;
  const std::int64_t m = GetParam();
  const std::int64_t n = m / 2 + 5;
  const std::int64_t k = m + 3;
  const RowMajor start = random_matrix<RowMajor>(m, n, 1);
  Pool pool(2);
  for (const bool flip_a : {false, true}) {
    for (const bool flip_b : {false, true}) {
      const RowMajor a = random_matrix<RowMajor>(flip_a ? k : m, flip_a ? m : k, 2);
      const RowMajor b = random_matrix<RowMajor>(flip_b ? n : k, flip_b ? k : n, 3);
      const RowMajor op_a = flip_a ? RowMajor(a.transpose()) : a;
      const RowMajor op_b = flip_b ? RowMajor(b.transpose()) : b;
      RowMajor c = start;
      linalg::gemm_f64(flip_a ? Trans::kYes : Trans::kNo, flip_b ? Trans::kYes : Trans::kNo, -0.75,
                       view(a), view(b), 0.5, view(c), pool);
      const RowMajor expected = 0.5 * start - 0.75 * op_a * op_b;
      EXPECT_LE((c - expected).norm(), 1e-13 * op_a.norm() * op_b.norm());
    }
  }
}

TEST_P(AgainstEigen, GramSumAgreesToTheRoundingOfF32Products) {
  const std::int64_t n = GetParam();
  const RowMajorF x = random_matrix<RowMajorF>(700, n, 4);
  RowMajor h = RowMajor::Zero(n, n);
  Pool pool(2);
  linalg::gram_accumulate(view(x), view(h), pool);
  linalg::mirror_upper(view(h), pool);
  const RowMajor wide = x.cast<double>();
  const RowMajor expected = wide.transpose() * wide;
  EXPECT_LE((h - expected).norm(), 1e-6 * expected.norm());
}

INSTANTIATE_TEST_SUITE_P(Orders, AgainstEigen,
                         testing::Values(1, 2, 31, 33, 64, 97, 255, 256, 257, 384, 511, 700),
                         testing::PrintToStringParamName());

}  // namespace
