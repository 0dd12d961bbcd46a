#include "engine.hpp"

#include <gtest/gtest.h>

#include <bit>
#include <cmath>
#include <random>

#include "device_arrays.hpp"
#include "device_fixture.hpp"

namespace cortiq::device {
namespace {

constexpr std::int64_t kSize = 384;  // three blocks of kTile
constexpr std::int64_t kRows = 128;
// Sums of 384 products of normal numbers in f32: about sqrt(384) roundings of values up to 100.
constexpr double kTolerance = 2e-4;

using Values = std::vector<float>;

std::size_t at(std::int64_t i) { return static_cast<std::size_t>(i); }

Values random_values(std::int64_t count, std::uint32_t seed) {
  std::mt19937 generator(seed);
  std::normal_distribution<float> normal;
  Values values(at(count));
  for (float& v : values) v = normal(generator);
  return values;
}

class EngineTest : public test::DeviceTest {
 protected:
  void SetUp() override {
    DeviceTest::SetUp();
    if (context_) arrays_ = std::make_unique<test::DeviceArrays>(context_);
  }
  void TearDown() override {
    arrays_.reset();
    DeviceTest::TearDown();
  }

  /// [rows, kSize] as lines.
  Operand operand(const Values& m, std::int64_t rows) {
    Values lines(m.size());
    for (std::int64_t r = 0; r < rows; ++r)
      for (std::int64_t k = 0; k < kSize; ++k)
        lines[at((k / 32 * rows + r) * 32 + k % 32)] = m[at(r * kSize + k)];
    Operand o;
    o.rows = rows;
    o.chunks = kSize / layout::kChunk;
    o.lines = arrays_->upload(lines);
    return o;
  }

  static Product product(const Operand& a, const Operand& b, const vulkan::Buffer& c) {
    Product p;
    p.a = &a;
    p.b = &b;
    p.c = c.address();
    p.c_stride = p.n = p.k = kSize;
    p.m = kRows;
    return p;
  }

  Values floats(const vulkan::Buffer& buffer) {
    Values values;
    for (const std::uint32_t word : arrays_->words(buffer)) values.push_back(std::bit_cast<float>(word));
    return values;
  }

  std::unique_ptr<test::DeviceArrays> arrays_;
};

/// sum_k a[row][k] b[column][k].
double dot(const Values& a, std::int64_t row, const Values& b, std::int64_t column) {
  double sum = 0;
  for (std::int64_t k = 0; k < kSize; ++k)
    sum += static_cast<double>(a[at(row * kSize + k)]) * static_cast<double>(b[at(column * kSize + k)]);
  return sum;
}

TEST_F(EngineTest, product_of_half_the_work_has_the_quadratic_forms_of_the_whole) {
  const Values a = random_values(kRows * kSize, 1);
  Values b = random_values(kSize * kSize, 2);
  for (std::int64_t i = 0; i < kSize; ++i)
    for (std::int64_t j = 0; j < i; ++j) b[at(i * kSize + j)] = b[at(j * kSize + i)];
  const Operand lines_a = operand(a, kRows), lines_b = operand(b, kSize);
  const vulkan::Buffer c = arrays_->poisoned(kRows * kSize);
  arrays_->engine.multiply_half(arrays_->stream, product(lines_a, lines_b, c));
  arrays_->stream.barrier();
  const Values got = floats(c);
  ASSERT_EQ(got.size(), at(kRows * kSize));
  for (std::int64_t r = 0; r < kRows; ++r) {
    double form = 0, truth = 0, size = 0;
    for (std::int64_t j = 0; j < kSize; ++j) {
      const auto w = static_cast<double>(a[at(r * kSize + j)]);
      const double whole = dot(a, r, b, j);
      form += w * static_cast<double>(got[at(r * kSize + j)]);
      truth += w * whole;
      size += std::fabs(w * whole);
    }
    ASSERT_NEAR(form, truth, 1e-6 * size) << "row " << r;
  }
}

TEST_F(EngineTest, sums_that_start_from_c_add_the_product_to_it) {
  const Values a = random_values(kRows * kSize, 3), b = random_values(kSize * kSize, 4), before = random_values(kRows * kSize, 5);
  const Operand lines_a = operand(a, kRows), lines_b = operand(b, kSize);
  for (const bool from_c : {false, true}) {
    for (const double alpha : {-1.0, 0.5}) {
      const vulkan::Buffer c = arrays_->upload(before);
      Product p = product(lines_a, lines_b, c);
      p.flags = layout::kGemmAdd;
      p.alpha = alpha;
      p.from_c = from_c;
      arrays_->engine.multiply(arrays_->stream, p);
      arrays_->stream.barrier();
      Values got(before.size());
      download(arrays_->engine, arrays_->stream, c, 0, std::as_writable_bytes(std::span(got)));
      double worst = 0;
      for (std::int64_t r = 0; r < kRows; ++r)
        for (std::int64_t j = 0; j < kSize; ++j) {
          const double truth = static_cast<double>(before[at(r * kSize + j)]) + alpha * dot(a, r, b, j);
          worst = std::max(worst, std::fabs(static_cast<double>(got[at(r * kSize + j)]) - truth));
        }
      EXPECT_LE(worst, kTolerance) << "from C " << from_c << ", alpha " << alpha;
    }
  }
}

}  // namespace
}  // namespace cortiq::device
