// The corrected target against its definition (docs/quality.md sections 5 and 9).
#include "../../../src/pipeline/sequential_target.hpp"

#include <gtest/gtest.h>

#include <cmath>
#include <random>

#include "cortiq/support/error.hpp"

namespace cortiq::pipeline::test {
namespace {

constexpr std::int64_t kRows = 900;
constexpr std::int64_t kWidth = 16;
constexpr std::int64_t kOut = 6;

using Table = std::vector<std::vector<double>>;

std::vector<float> random_rows(std::int64_t rows, std::int64_t cols, unsigned seed) {
  std::mt19937 generator(seed);
  std::normal_distribution<float> normal;
  std::vector<float> values(static_cast<std::size_t>(rows * cols));
  for (float& value : values) value = normal(generator);
  return values;
}

ConstMatrixView<float> view(const std::vector<float>& values, std::int64_t cols) {
  return {values.data(), static_cast<std::int64_t>(values.size()) / cols, cols};
}

/// x of the original model, q = x and some noise, residual streams r and s.
class SequentialTarget : public testing::Test {
 protected:
  SequentialTarget() {
    const std::vector<float> noise = random_rows(kRows, kWidth, 8);
    for (std::size_t i = 0; i < q_.size(); ++i) q_[i] = x_[i] + 0.2F * noise[i] * noise[i];
  }

  calib::StreamMoments moments(bool residual) {
    model::InputGroup input;
    input.width = kWidth;
    input.role = model::Role::kMixOut;
    calib::StreamCapture capture(input, residual ? kOut : 0, pool_);
    capture.add(view(x_, kWidth), view(q_, kWidth));
    capture.add_residual(view(r_, kOut), view(s_, kOut), view(q_, kWidth));
    return capture.take();
  }
  DecodedTensor weights() const { return {random_rows(kOut, kWidth, 5), kOut, kWidth}; }

  /// sum over the rows of (W x + r - s - W' q) q^T: zero at the least-squares solution.
  Table gradient(const DecodedTensor& w, const DecodedTensor& target) const {
    Table sum(kOut, std::vector<double>(kWidth, 0.0));
    for (std::int64_t t = 0; t < kRows; ++t) {
      for (std::int64_t o = 0; o < kOut; ++o) {
        double error = static_cast<double>(view(r_, kOut)(t, o)) -
                       static_cast<double>(view(s_, kOut)(t, o));
        for (std::int64_t c = 0; c < kWidth; ++c) {
          error += static_cast<double>(w.view()(o, c)) *
                       static_cast<double>(view(x_, kWidth)(t, c)) -
                   static_cast<double>(target.view()(o, c)) *
                       static_cast<double>(view(q_, kWidth)(t, c));
        }
        for (std::int64_t c = 0; c < kWidth; ++c)
          sum[static_cast<std::size_t>(o)][static_cast<std::size_t>(c)] +=
              error * static_cast<double>(view(q_, kWidth)(t, c));
      }
    }
    return sum;
  }

  static double largest(const Table& table) {
    double most = 0;
    for (const auto& row : table) {
      for (const double value : row) most = std::max(most, std::fabs(value));
    }
    return most;
  }

  std::vector<float> x_ = random_rows(kRows, kWidth, 1);
  std::vector<float> q_ = x_;
  std::vector<float> r_ = random_rows(kRows, kOut, 3);
  std::vector<float> s_ = random_rows(kRows, kOut, 4);
  Pool pool_{2};
};

TEST_F(SequentialTarget, alpha_one_without_ridge_is_the_least_squares_solution) {
  const auto m = moments(true);
  const DecodedTensor w = weights();
  const TargetSolver solver(*m.hessian, 0.0, pool_);
  ASSERT_TRUE(solver.usable());
  const DecodedTensor target = solver.correct(w, *m.shift, m.residual.get(), 1.0);
  EXPECT_GT(largest(gradient(w, w)), 50.0);
  // The target is f32 and the moments f32 sums of 256 products: 900 rows of order 1.
  EXPECT_LT(largest(gradient(w, target)), 5e-3);
}

TEST_F(SequentialTarget, correction_with_alpha_and_rho_satisfies_its_equation) {
  const auto m = moments(true);
  const DecodedTensor w = weights();
  const double rho = 0.3;
  const double alpha = 0.75;
  const TargetSolver solver(*m.hessian, rho, pool_);
  const DecodedTensor target = solver.correct(w, *m.shift, m.residual.get(), alpha);
  double mean = 0;
  for (std::int64_t i = 0; i < kWidth; ++i) mean += m.hessian->view()(i, i) / kWidth;
  for (std::int64_t o = 0; o < kOut; ++o) {
    for (std::int64_t c = 0; c < kWidth; ++c) {
      // (W' - W)(H + rho mean I) = alpha (W shift + residual), column c.
      double left = (static_cast<double>(target.view()(o, c)) -
                     static_cast<double>(w.view()(o, c))) *
                    rho * mean;
      double right = m.residual->view()(o, c);
      for (std::int64_t k = 0; k < kWidth; ++k) {
        const double h = k <= c ? m.hessian->view()(k, c) : m.hessian->view()(c, k);
        left += (static_cast<double>(target.view()(o, k)) - static_cast<double>(w.view()(o, k))) * h;
        right += static_cast<double>(w.view()(o, k)) * m.shift->view()(k, c);
      }
      EXPECT_NEAR(left, alpha * right, 2e-3) << o << "," << c;
    }
  }
}

TEST_F(SequentialTarget, equal_streams_leave_the_weights_as_they_are) {
  q_ = x_;
  s_ = r_;
  const auto m = moments(true);
  const DecodedTensor w = weights();
  const TargetSolver solver(*m.hessian, 0.01, pool_);
  EXPECT_EQ(solver.correct(w, *m.shift, m.residual.get(), 0.75).values, w.values);
}

TEST_F(SequentialTarget, alpha_zero_leaves_the_weights_as_they_are) {
  const auto m = moments(true);
  const DecodedTensor w = weights();
  const TargetSolver solver(*m.hessian, 0.01, pool_);
  EXPECT_EQ(solver.correct(w, *m.shift, m.residual.get(), 0.0).values, w.values);
}

TEST_F(SequentialTarget, a_dead_channel_keeps_its_weights_and_a_singular_matrix_needs_a_ridge) {
  for (std::int64_t t = 0; t < kRows; ++t) q_[static_cast<std::size_t>(t * kWidth + 7)] = 0.0F;
  const auto m = moments(false);
  EXPECT_FALSE(TargetSolver(*m.hessian, 0.0, pool_).usable());
  const TargetSolver solver(*m.hessian, 0.01, pool_);
  ASSERT_TRUE(solver.usable());
  const DecodedTensor w = weights();
  const DecodedTensor target = solver.correct(w, *m.shift, nullptr, 0.75);
  for (std::int64_t o = 0; o < kOut; ++o) EXPECT_EQ(target.view()(o, 7), w.view()(o, 7));
  EXPECT_NE(target.values, w.values);
}

TEST_F(SequentialTarget, many_rows_and_columns_give_the_same_bits_for_any_number_of_threads) {
  // Wider than a panel of the triangular products, more rows than a panel of the weights.
  constexpr std::int64_t kWide = 300;
  const std::vector<float> x = random_rows(600, kWide, 11);
  const std::vector<float> q = random_rows(600, kWide, 12);
  const DecodedTensor w{random_rows(1100, kWide, 13), 1100, kWide};
  std::vector<std::vector<float>> results;
  for (const int threads : {1, 2, 7}) {
    Pool pool(threads);
    model::InputGroup input;
    input.width = kWide;
    calib::StreamCapture capture(input, 0, pool);
    capture.add(view(x, kWide), view(q, kWide));
    const auto m = capture.take();
    results.push_back(
        TargetSolver(*m.hessian, 0.01, pool).correct(w, *m.shift, nullptr, 0.75).values);
  }
  EXPECT_EQ(results[0], results[1]);
  EXPECT_EQ(results[0], results[2]);
}

TEST_F(SequentialTarget, a_target_that_overflows_is_an_error_with_its_place) {
  for (float& value : r_) value = 3e38F;
  const auto m = moments(true);
  const TargetSolver solver(*m.hessian, 0.01, pool_);
  try {
    static_cast<void>(solver.correct(weights(), *m.shift, m.residual.get(), 0.75));
    FAIL() << "accepted";
  } catch (const Error& error) {
    EXPECT_EQ(error.kind(), ErrorKind::kNumeric);
    EXPECT_NE(std::string(error.what()).find("is not finite at row 0, column 0"),
              std::string::npos)
        << error.what();
  }
}

}  // namespace
}  // namespace cortiq::pipeline::test
