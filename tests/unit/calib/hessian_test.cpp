#include "cortiq/calib/hessian.hpp"

#include <gtest/gtest.h>

#include <cmath>
#include <limits>
#include <random>

#include "cortiq/support/error.hpp"

namespace cortiq::calib {
namespace {

std::vector<float> random_rows(std::int64_t rows, std::int64_t cols) {
  std::mt19937 generator(7);
  std::normal_distribution<float> normal;
  std::vector<float> values(static_cast<std::size_t>(rows * cols));
  for (float& value : values) value = normal(generator);
  return values;
}

model::InputGroup group(std::int64_t layer, model::Role role, std::int64_t width,
                        std::int64_t expert = -1) {
  model::InputGroup made;
  made.layer = layer;
  made.role = role;
  made.expert = expert;
  made.width = width;
  return made;
}

/// Captures all rows in batches of `batch` (0: one batch).
std::unique_ptr<Hessian> capture(const std::vector<float>& x, std::int64_t cols, std::int64_t batch,
                                 int threads) {
  Pool pool(threads);
  Capture capture({group(3, model::Role::kMlp, cols)}, pool);
  const std::int64_t rows = static_cast<std::int64_t>(x.size()) / cols;
  const std::int64_t step = batch == 0 ? rows : batch;
  for (std::int64_t begin = 0; begin < rows; begin += step) {
    const std::int64_t count = std::min(step, rows - begin);
    capture.observe({3, model::Role::kMlp, -1, {x.data() + begin * cols, count, cols}});
  }
  return capture.take(0);
}

TEST(Capture, sums_are_those_of_a_plain_double_loop) {
  constexpr std::int64_t kRows = 700, kCols = 37;
  const std::vector<float> x = random_rows(kRows, kCols);
  const auto hessian = capture(x, kCols, 100, 1);
  EXPECT_EQ(hessian->count, kRows);
  for (std::int64_t i = 0; i < kCols; ++i) {
    for (std::int64_t j = i; j < kCols; ++j) {
      double sum = 0;
      for (std::int64_t r = 0; r < kRows; ++r) {
        sum += static_cast<double>(x[static_cast<std::size_t>(r * kCols + i)]) *
               static_cast<double>(x[static_cast<std::size_t>(r * kCols + j)]);
      }
      // 256 products in f32: relative to the diagonal of about 700.
      EXPECT_NEAR(hessian->view()(i, j), sum, 700 * 1e-5);
    }
    EXPECT_EQ(hessian->sum_squares[static_cast<std::size_t>(i)], hessian->view()(i, i));
  }
}

TEST(Capture, bits_do_not_depend_on_batches_or_threads) {
  constexpr std::int64_t kCols = 40;
  const std::vector<float> x = random_rows(1111, kCols);
  const auto reference = capture(x, kCols, 0, 1);
  for (const std::int64_t batch : {1, 100, 255, 256, 257, 512, 900}) {
    const auto other = capture(x, kCols, batch, batch % 2 == 0 ? 3 : 1);
    ASSERT_EQ(other->count, reference->count);
    for (std::int64_t i = 0; i < kCols; ++i) {
      for (std::int64_t j = i; j < kCols; ++j)
        ASSERT_EQ(other->view()(i, j), reference->view()(i, j)) << batch;
    }
  }
}

TEST(Capture, is_structural_and_ignores_other_inputs) {
  Pool pool(1);
  Capture capture({group(0, model::Role::kIn, 4), group(1, model::Role::kExpertIn, 4, 2)}, pool);
  EXPECT_TRUE(capture.wants(0, model::Role::kIn, -1));
  EXPECT_TRUE(capture.wants(1, model::Role::kExpertIn, 2));
  EXPECT_FALSE(capture.wants(1, model::Role::kExpertIn, 1));
  EXPECT_FALSE(capture.wants(0, model::Role::kMlp, -1));
  const float row[4] = {1, 2, 3, 4};
  capture.observe({1, model::Role::kExpertIn, 1, {row, 1, 4}});
  capture.observe({1, model::Role::kExpertIn, 2, {row, 1, 4}});
  EXPECT_EQ(capture.take(0)->count, 0);
  const auto hessian = capture.take(1);
  EXPECT_EQ(hessian->count, 1);
  EXPECT_EQ(hessian->view()(1, 3), 8);
  EXPECT_EQ(capture.take(1)->count, 0) << "taken twice";
  EXPECT_GT(capture.seconds(), 0);
}

TEST(Capture, rows_of_a_strided_view_are_read_at_their_stride) {
  Pool pool(1);
  Capture capture({group(0, model::Role::kIn, 2)}, pool);
  const std::vector<float> wide(300 * 5, 1.0F);
  capture.observe({0, model::Role::kIn, -1, ConstMatrixView<float>(wide.data(), 300, 2, 5)});
  EXPECT_EQ(capture.take(0)->view()(0, 1), 300);
}

TEST(Capture, non_finite_row_is_an_error_with_layer_and_role) {
  Pool pool(2);
  for (const float bad :
       {std::numeric_limits<float>::quiet_NaN(), -std::numeric_limits<float>::infinity()}) {
    Capture capture({group(5, model::Role::kDown, 8)}, pool);
    std::vector<float> x(8 * 400, 1.0F);
    x[8 * 399 + 3] = bad;
    try {
      capture.observe({5, model::Role::kDown, -1, {x.data(), 400, 8}});
      FAIL();
    } catch (const Error& error) {
      EXPECT_EQ(error.kind(), ErrorKind::kNumeric);
      const std::string text = error.what();
      EXPECT_NE(text.find("layer 5"), std::string::npos) << text;
      EXPECT_NE(text.find("row 399"), std::string::npos) << text;
      EXPECT_NE(text.find("channel 3"), std::string::npos) << text;
    }
  }
}

TEST(Capture, rows_of_another_width_are_an_error) {
  Pool pool(1);
  Capture capture({group(0, model::Role::kIn, 8)}, pool);
  const std::vector<float> x(7, 1.0F);
  EXPECT_THROW(capture.observe({0, model::Role::kIn, -1, {x.data(), 1, 7}}), Error);
}

TEST(Hessian, starts_as_zeros) {
  const Hessian hessian(300);
  for (std::int64_t i = 0; i < 300; ++i) ASSERT_EQ(hessian.view()(i, 299 - i), 0);
  EXPECT_EQ(hessian_bytes(65536), std::uint64_t{1} << 35);
}

TEST(CheckHessian, counts_dead_and_outlier_channels) {
  Hessian hessian(5);
  const double diagonal[5] = {0, 2, 4, 6, 1000};
  for (std::int64_t i = 0; i < 5; ++i) hessian.view()(i, i) = diagonal[i];
  hessian.count = 4;
  Pool pool(1);
  const HessianHealth health = check_hessian(hessian, pool);
  EXPECT_EQ(health.dead_channels, 1);
  EXPECT_TRUE(health.rank_deficient);
  EXPECT_EQ(health.outlier_channels, 1);  // 1000 > 100 * 6 (upper median)
  EXPECT_EQ(health.mean_diagonal, 253);
  hessian.count = 5;
  EXPECT_FALSE(check_hessian(hessian, pool).rank_deficient);
}

TEST(CheckHessian, names_the_first_entry_that_is_not_finite) {
  Hessian hessian(200);
  hessian.view()(150, 180) = std::numeric_limits<double>::quiet_NaN();
  hessian.view()(100, 199) = std::numeric_limits<double>::infinity();
  hessian.view()(50, 3) =
      std::numeric_limits<double>::quiet_NaN();  // below the diagonal: not looked at
  Pool pool(3);
  try {
    (void)check_hessian(hessian, pool);
    FAIL();
  } catch (const Error& error) {
    EXPECT_EQ(error.kind(), ErrorKind::kNumeric);
    EXPECT_NE(std::string(error.what()).find("(100, 199)"), std::string::npos) << error.what();
  }
}

}  // namespace
}  // namespace cortiq::calib
