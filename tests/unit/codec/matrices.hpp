// matrices.hpp: seeded weight matrices that reach the corners of the encoders: outliers, dead
// groups, wide ranges, exact ties, subnormals.
#pragma once

#include <cmath>
#include <cstdint>
#include <random>
#include <vector>

#include "cortiq/support/view.hpp"

namespace cortiq::test {

struct TestMatrix {
  std::vector<float> values;
  std::int64_t rows = 0;
  std::int64_t cols = 0;
  [[nodiscard]] ConstMatrixView<float> view() const { return {values.data(), rows, cols}; }
};

inline constexpr int kMatrixKinds = 8;

inline TestMatrix make_matrix(std::uint32_t seed, std::int64_t rows, std::int64_t cols) {
  std::mt19937 random(seed);
  std::normal_distribution<float> normal(0.0F, 0.02F);
  TestMatrix m{std::vector<float>(static_cast<std::size_t>(rows * cols)), rows, cols};
  const int kind = static_cast<int>(seed % kMatrixKinds);
  for (std::size_t i = 0; i < m.values.size(); ++i) {
    float w = normal(random);
    const std::size_t group = i / 32;
    if (kind == 1 && random() % 61 == 0) w *= 40.0F;
    if (kind == 2 && group % 5 == 1) w = (i % 2 == 0) ? 0.0F : -0.0F;
    if (kind == 3) w *= std::exp2(static_cast<float>(group % 17) - 8.0F);
    if (kind == 4) w = 0.125F * static_cast<float>(static_cast<int>(random() % 31) - 15);
    if (kind == 5) w *= 1e-37F;
    if (kind == 6) w = (i % 32 == 7) ? w * 100.0F : w * 1e-3F;
    if (kind == 7 && (random() % 97 == 0 || group % 13 == 5))
      w = group % 13 == 5 ? 0.0F : w * 50.0F;
    m.values[i] = w;
  }
  return m;
}

}  // namespace cortiq::test
