// reference.hpp: seeded matrices and plain f64 loops that the linalg tests compare with.
#pragma once

#include <cstdint>
#include <random>
#include <string>
#include <vector>

#include "cortiq/linalg/gemm.hpp"
#include "cortiq/support/parallel.hpp"
#include "cortiq/support/view.hpp"

namespace cortiq::test {

/// rows x cols inside storage with a wider stride; the gap holds a marker that no kernel may touch.
template <typename T>
struct Matrix {
  static constexpr T kGap = T(-777);
  Matrix(std::int64_t row_count, std::int64_t col_count, std::int64_t gap = 0)
      : rows(row_count),
        cols(col_count),
        stride(col_count + gap),
        data(static_cast<std::size_t>(rows * stride), kGap) {}
  [[nodiscard]] MatrixView<T> view() { return {data.data(), rows, cols, stride}; }
  [[nodiscard]] ConstMatrixView<T> view() const { return {data.data(), rows, cols, stride}; }
  [[nodiscard]] T& operator()(std::int64_t r, std::int64_t c) {
    return data[static_cast<std::size_t>(r * stride + c)];
  }
  [[nodiscard]] T operator()(std::int64_t r, std::int64_t c) const {
    return data[static_cast<std::size_t>(r * stride + c)];
  }
  [[nodiscard]] bool gap_is_intact() const {
    for (std::int64_t r = 0; r < rows; ++r) {
      for (std::int64_t c = cols; c < stride; ++c) {
        if ((*this)(r, c) != kGap) return false;
      }
    }
    return true;
  }
  std::int64_t rows;
  std::int64_t cols;
  std::int64_t stride;
  std::vector<T> data;
};

/// Uniform in [-1, 1).
template <typename T>
Matrix<T> random_matrix(std::int64_t rows, std::int64_t cols, std::uint64_t seed,
                        std::int64_t gap = 0) {
  std::mt19937_64 engine(seed);
  std::uniform_real_distribution<double> uniform(-1.0, 1.0);
  Matrix<T> m(rows, cols, gap);
  for (std::int64_t r = 0; r < rows; ++r) {
    for (std::int64_t c = 0; c < cols; ++c) m(r, c) = static_cast<T>(uniform(engine));
  }
  return m;
}

template <typename T>
double element(const Matrix<T>& m, linalg::Trans trans, std::int64_t r, std::int64_t c) {
  return static_cast<double>(trans == linalg::Trans::kYes ? m(c, r) : m(r, c));
}

/// Every instruction set that this processor has.
inline std::vector<SimdLevel> simd_levels() {
  std::vector<SimdLevel> levels;
  for (const SimdLevel level : {SimdLevel::kPortable, SimdLevel::kAvx2, SimdLevel::kAvx512}) {
    if (level <= detect_simd()) levels.push_back(level);
  }
  return levels;
}

inline std::string shape(SimdLevel level, std::int64_t m, std::int64_t n, std::int64_t k) {
  return std::string(simd_name(level)) + " m=" + std::to_string(m) + " n=" + std::to_string(n) +
         " k=" + std::to_string(k);
}

}  // namespace cortiq::test
