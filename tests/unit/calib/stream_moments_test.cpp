// The second moments of two streams against plain loops.
#include "cortiq/calib/stream_moments.hpp"

#include <gtest/gtest.h>

#include <cmath>
#include <limits>
#include <random>

#include "cortiq/support/error.hpp"

namespace cortiq::calib {
namespace {

constexpr std::int64_t kRows = 300;
constexpr std::int64_t kWidth = 24;
constexpr std::int64_t kHidden = 10;

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

model::InputGroup input() {
  model::InputGroup made;
  made.layer = 3;
  made.role = model::Role::kMixOut;
  made.width = kWidth;
  return made;
}

/// sum (a - b)^T right as a plain loop; tolerance: f32 sums of 256 products.
void expect_moment(ConstMatrixView<double> got, const std::vector<float>& a,
                   const std::vector<float>& b, const std::vector<float>& right) {
  const std::int64_t m = got.rows();
  for (std::int64_t i = 0; i < m; ++i) {
    for (std::int64_t j = 0; j < got.cols(); ++j) {
      double sum = 0;
      double magnitude = 0;
      for (std::int64_t t = 0; t < kRows; ++t) {
        const double product = (static_cast<double>(view(a, m)(t, i)) -
                                static_cast<double>(view(b, m)(t, i))) *
                               static_cast<double>(view(right, got.cols())(t, j));
        sum += product;
        magnitude += std::fabs(product);
      }
      ASSERT_NEAR(got(i, j), sum, 258 * 6e-8 * magnitude) << i << "," << j;
    }
  }
}

class StreamMomentsTest : public testing::Test {
 protected:
  std::vector<float> x_ = random_rows(kRows, kWidth, 1);
  std::vector<float> q_ = random_rows(kRows, kWidth, 2);
  std::vector<float> r_ = random_rows(kRows, kHidden, 3);
  std::vector<float> s_ = random_rows(kRows, kHidden, 4);
  Pool pool_{2};
};

TEST_F(StreamMomentsTest, sums_are_those_of_plain_loops) {
  StreamCapture capture(input(), kHidden, pool_);
  for (std::int64_t first = 0; first < kRows; first += 100) {
    const auto part = [&](const std::vector<float>& values, std::int64_t cols) {
      return view(values, cols).block(first, 0, 100, cols);
    };
    capture.add(part(x_, kWidth), part(q_, kWidth));
    capture.add_residual(part(r_, kHidden), part(s_, kHidden), part(q_, kWidth));
  }
  const StreamMoments moments = capture.take();
  EXPECT_EQ(moments.hessian->count, kRows);
  expect_moment(moments.shift->view(), x_, q_, q_);
  ASSERT_NE(moments.residual, nullptr);
  expect_moment(moments.residual->view(), r_, s_, q_);
  EXPECT_FALSE(moments.shift->is_zero());
}

TEST_F(StreamMomentsTest, hessian_has_the_bits_of_a_capture_of_the_quantized_stream) {
  StreamCapture both(input(), 0, pool_);
  both.add(view(x_, kWidth), view(q_, kWidth));
  const StreamMoments moments = both.take();
  EXPECT_EQ(moments.residual, nullptr);
  Capture alone({input()}, pool_);
  alone.observe({3, model::Role::kMixOut, -1, view(q_, kWidth)});
  const auto hessian = alone.take(0);
  for (std::int64_t i = 0; i < kWidth; ++i) {
    for (std::int64_t j = i; j < kWidth; ++j)
      ASSERT_EQ(moments.hessian->view()(i, j), hessian->view()(i, j));
  }
}

TEST_F(StreamMomentsTest, equal_streams_give_exactly_zero) {
  StreamCapture capture(input(), kHidden, pool_);
  capture.add(view(q_, kWidth), view(q_, kWidth));
  capture.add_residual(view(r_, kHidden), view(r_, kHidden), view(q_, kWidth));
  const StreamMoments moments = capture.take();
  EXPECT_TRUE(moments.shift->is_zero());
  EXPECT_TRUE(moments.residual->is_zero());
  for (std::int64_t i = 0; i < kWidth; ++i) {
    for (std::int64_t j = 0; j < kWidth; ++j) ASSERT_EQ(moments.shift->view()(i, j), 0.0);
  }
}

TEST_F(StreamMomentsTest, bits_do_not_depend_on_threads) {
  std::vector<std::vector<double>> results;
  for (const int threads : {1, 2, 7}) {
    Pool pool(threads);
    StreamCapture capture(input(), 0, pool);
    capture.add(view(x_, kWidth), view(q_, kWidth));
    const StreamMoments moments = capture.take();
    const double* values = moments.shift->view().data();
    results.emplace_back(values, values + kWidth * kWidth);
  }
  EXPECT_EQ(results[0], results[1]);
  EXPECT_EQ(results[0], results[2]);
}

TEST_F(StreamMomentsTest, a_row_that_is_not_finite_is_an_error_with_its_place) {
  q_[30] = std::numeric_limits<float>::infinity();
  StreamCapture capture(input(), 0, pool_);
  try {
    capture.add(view(x_, kWidth), view(q_, kWidth));
    FAIL() << "accepted";
  } catch (const Error& error) {
    EXPECT_EQ(error.kind(), ErrorKind::kNumeric);
    EXPECT_NE(std::string(error.what()).find("layer 3, input mixout: row 1 is inf at channel 6"),
              std::string::npos)
        << error.what();
  }
}

TEST_F(StreamMomentsTest, scaled_sum_adds_every_entry) {
  CrossMoment a(kWidth, kWidth);
  CrossMoment b(kWidth, kWidth);
  a.add_difference(view(x_, kWidth), view(q_, kWidth), view(q_, kWidth), pool_);
  b.add_scaled(a, 0.5, pool_);
  b.add_scaled(a, 2.0, pool_);
  EXPECT_FALSE(b.is_zero());
  for (std::int64_t i = 0; i < kWidth; ++i) {
    for (std::int64_t j = 0; j < kWidth; ++j)
      ASSERT_DOUBLE_EQ(b.view()(i, j), 0.5 * a.view()(i, j) + 2.0 * a.view()(i, j));
  }
}

}  // namespace
}  // namespace cortiq::calib
