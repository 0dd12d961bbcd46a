// Rows of a matrix with a norm behind it, scaled to those of one without.
#include "../../../src/pipeline/post_norm.hpp"

#include <gtest/gtest.h>

#include <cmath>
#include <random>

namespace cortiq::pipeline::test {
namespace {

constexpr std::int64_t kRows = 70;
constexpr std::int64_t kIn = 12;
constexpr std::int64_t kOut = 9;

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

double at(ConstMatrixView<float> m, std::int64_t r, std::int64_t c) {
  return static_cast<double>(m(r, c));
}

class PostNorm : public testing::Test {
 protected:
  PostNorm() {
    w_.rows = kOut;
    w_.cols = kIn;
    w_.values = random_rows(kOut, kIn, 7);
    for (float& g : g_) g = 1.0F + 0.3F * g;
    g_[4] = 0.0F;
  }
  double rms_of_output(std::int64_t row) const {
    double square = 0;
    for (std::int64_t o = 0; o < kOut; ++o) {
      double y = 0;
      for (std::int64_t c = 0; c < kIn; ++c)
        y += at(view(w_.values, kIn), o, c) * at(view(x_, kIn), row, c);
      square += y * y / static_cast<double>(kOut);
    }
    return std::sqrt(square + eps_);
  }
  StageRows rows() const {
    return {view(x_, kIn), view(q_, kIn), view(r_, kOut), view(s_, kOut)};
  }

  model::LinearStack w_;
  std::vector<float> g_ = random_rows(1, kOut, 6);
  std::vector<float> x_ = random_rows(kRows, kIn, 1);
  std::vector<float> q_ = random_rows(kRows, kIn, 2);
  std::vector<float> r_ = random_rows(kRows, kOut, 3);
  std::vector<float> s_ = random_rows(kRows, kOut, 4);
  double eps_ = 1e-2;
  Pool pool_{2};
};

TEST_F(PostNorm, inputs_are_divided_by_the_rms_of_the_reference_output) {
  PostNormScale scale(w_, g_, eps_, pool_);
  const StageRows scaled = scale.apply(rows());
  for (std::int64_t t = 0; t < kRows; ++t) {
    const double rms = rms_of_output(t);
    for (std::int64_t c = 0; c < kIn; ++c) {
      EXPECT_NEAR(at(scaled.x, t, c), at(view(x_, kIn), t, c) / rms, 1e-5);
      EXPECT_NEAR(at(scaled.q, t, c), at(view(q_, kIn), t, c) / rms, 1e-5);
    }
  }
}

TEST_F(PostNorm, residual_streams_are_divided_by_the_norm_weights_and_silent_channels_ask_nothing) {
  PostNormScale scale(w_, g_, eps_, pool_);
  const StageRows scaled = scale.apply(rows());
  double mean = 0;
  for (const float g : g_) mean += static_cast<double>(g) * static_cast<double>(g) / kOut;
  for (std::int64_t t = 0; t < kRows; ++t) {
    for (std::int64_t c = 0; c < kOut; ++c) {
      const auto g = static_cast<double>(g_[static_cast<std::size_t>(c)]);
      const double factor = g / (g * g + 0.05 * mean);
      EXPECT_NEAR(at(scaled.r, t, c), at(view(r_, kOut), t, c) * factor, 1e-6);
      EXPECT_NEAR(at(scaled.s, t, c), at(view(s_, kOut), t, c) * factor, 1e-6);
    }
    EXPECT_EQ(scaled.r(t, 4), 0.0F);
  }
}

TEST_F(PostNorm, a_norm_of_zeros_leaves_no_residual) {
  for (float& g : g_) g = 0.0F;
  PostNormScale scale(w_, g_, eps_, pool_);
  const StageRows scaled = scale.apply(rows());
  for (std::int64_t c = 0; c < kOut; ++c) EXPECT_EQ(scaled.r(3, c), 0.0F);
}

}  // namespace
}  // namespace cortiq::pipeline::test
