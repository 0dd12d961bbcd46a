// random_problem.hpp: seeded Hessians and weights.
#pragma once

#include <cmath>
#include <cstdint>
#include <random>
#include <vector>

#include "cortiq/support/view.hpp"

namespace cortiq::device::test {

struct Matrix64 {
  std::int64_t n = 0;
  std::vector<double> values;
  [[nodiscard]] ConstMatrixView<double> view() const { return {values.data(), n, n}; }
  double& at(std::int64_t i, std::int64_t j) { return values[static_cast<std::size_t>(i * n + j)]; }
};

/// H = sum of samples x x^T of correlated channels whose sizes span `spread`, upper triangle and mirror.
inline Matrix64 random_hessian(std::int64_t n, std::int64_t samples, double spread, std::uint32_t seed) {
  std::mt19937 generator(seed);
  std::normal_distribution<double> normal;
  Matrix64 h{n, std::vector<double>(static_cast<std::size_t>(n * n), 0.0)};
  std::vector<double> size(static_cast<std::size_t>(n)), x(static_cast<std::size_t>(n));
  for (auto& s : size) s = std::exp2(normal(generator) * std::log2(spread) / 3.0);
  for (std::int64_t t = 0; t < samples; ++t) {
    double carried = normal(generator);
    for (std::size_t i = 0; i < x.size(); ++i) {
      carried = 0.7 * carried + 0.7 * normal(generator);
      x[i] = carried * size[i];
    }
    for (std::int64_t i = 0; i < n; ++i)
      for (std::int64_t j = i; j < n; ++j)
        h.at(i, j) += x[static_cast<std::size_t>(i)] * x[static_cast<std::size_t>(j)];
  }
  for (std::int64_t i = 0; i < n; ++i)
    for (std::int64_t j = 0; j < i; ++j) h.at(i, j) = h.at(j, i);
  return h;
}

inline std::vector<float> random_weights(std::int64_t rows, std::int64_t cols, std::uint32_t seed) {
  std::mt19937 generator(seed);
  std::normal_distribution<float> normal(0.0F, 0.02F);
  std::vector<float> w(static_cast<std::size_t>(rows * cols));
  for (auto& v : w) v = normal(generator);
  return w;
}

}  // namespace cortiq::device::test
