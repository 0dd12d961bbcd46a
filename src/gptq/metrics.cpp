#include "metrics.hpp"

#include <algorithm>
#include <array>
#include <vector>

#include "cortiq/gptq/backend.hpp"
#include "cortiq/linalg/gemm.hpp"

namespace cortiq::gptq {

namespace {

constexpr std::int64_t kColumnBlock = 256;
constexpr std::int64_t kRowGrain = 8;
constexpr std::int64_t kChunkRows = 1024;

double dot(const double* a, const double* b, std::int64_t count) {
  std::array<double, 4> lanes{};
  std::int64_t i = 0;
  for (; i + 4 <= count; i += 4) {
    for (std::size_t l = 0; l < 4; ++l)
      lanes[l] += a[i + static_cast<std::int64_t>(l)] * b[i + static_cast<std::int64_t>(l)];
  }
  for (; i < count; ++i) lanes[0] += a[i] * b[i];
  return (lanes[0] + lanes[1]) + (lanes[2] + lanes[3]);
}

/// The square of H on the diagonal, [size,size] at j0: mirrored, or only the upper triangle with
/// half the diagonal.
std::vector<double> diagonal_square(ConstMatrixView<double> h_upper, std::int64_t j0,
                                    std::int64_t size, bool mirrored) {
  std::vector<double> square(static_cast<std::size_t>(size * size), 0.0);
  const MatrixView<double> s(square.data(), size, size);
  for (std::int64_t i = 0; i < size; ++i) {
    s(i, i) = mirrored ? h_upper(j0 + i, j0 + i) : 0.5 * h_upper(j0 + i, j0 + i);
    for (std::int64_t j = i + 1; j < size; ++j) {
      s(i, j) = h_upper(j0 + i, j0 + j);
      if (mirrored) s(j, i) = s(i, j);
    }
  }
  return square;
}

/// z = columns [j0, j0 + z.cols()) of x*H (mirrored) or of x*T.
void product_block(ConstMatrixView<double> x, ConstMatrixView<double> h_upper, std::int64_t j0,
                   bool mirrored, MatrixView<double> z, Pool& pool) {
  using linalg::Trans;
  const std::int64_t n = x.cols();
  const std::int64_t size = z.cols();
  const std::int64_t j1 = j0 + size;
  const std::vector<double> square = diagonal_square(h_upper, j0, size, mirrored);
  linalg::gemm_f64(Trans::kNo, Trans::kNo, 1.0, x.block(0, j0, x.rows(), size),
                   ConstMatrixView<double>(square.data(), size, size), 0.0, z, pool);
  if (j0 > 0) {
    linalg::gemm_f64(Trans::kNo, Trans::kNo, 1.0, x.block(0, 0, x.rows(), j0),
                     h_upper.block(0, j0, j0, size), 1.0, z, pool);
  }
  if (mirrored && j1 < n) {
    linalg::gemm_f64(Trans::kNo, Trans::kYes, 1.0, x.block(0, j1, x.rows(), n - j1),
                     h_upper.block(j0, j1, size, n - j1), 1.0, z, pool);
  }
}

/// Calls take(j0, z) for each block of columns of the product.
template <typename Take>
void for_blocks(ConstMatrixView<double> x, ConstMatrixView<double> h_upper, bool mirrored,
                Pool& pool, Take&& take) {
  const std::int64_t n = x.cols();
  CORTIQ_ASSERT(h_upper.rows() == n && h_upper.cols() == n);
  std::vector<double> storage(static_cast<std::size_t>(x.rows() * std::min(n, kColumnBlock)));
  for (std::int64_t j0 = 0; j0 < n; j0 += kColumnBlock) {
    const std::int64_t size = std::min(kColumnBlock, n - j0);
    const MatrixView<double> z(storage.data(), x.rows(), size);
    product_block(x, h_upper, j0, mirrored, z, pool);
    take(j0, z);
  }
}

/// tr(E H E^T) of E = w - quantized, or of w alone.
double form_sum(ConstMatrixView<float> w, const ConstMatrixView<float>* quantized,
                ConstMatrixView<double> h_upper, Pool& pool) {
  const std::int64_t n = w.cols();
  const std::int64_t most = std::min(w.rows(), kChunkRows);
  std::vector<double> storage(static_cast<std::size_t>(most * n));
  std::vector<double> rows(static_cast<std::size_t>(most));
  double sum = 0;
  for (std::int64_t first = 0; first < w.rows(); first += kChunkRows) {
    const std::int64_t count = std::min(kChunkRows, w.rows() - first);
    const MatrixView<double> x(storage.data(), count, n);
    pool.for_ranges(count, kRowGrain, [&](std::int64_t begin, std::int64_t end) {
      for (std::int64_t r = begin; r < end; ++r) {
        double* out = x.row(r);
        const float* from = w.row(first + r);
        for (std::int64_t c = 0; c < n; ++c) out[c] = static_cast<double>(from[c]);
        if (quantized == nullptr) continue;
        const float* rounded = quantized->row(first + r);
        for (std::int64_t c = 0; c < n; ++c) out[c] -= static_cast<double>(rounded[c]);
      }
    });
    const std::span<double> out = std::span(rows).first(static_cast<std::size_t>(count));
    quadratic_rows(x, h_upper, out, pool);
    for (const double value : out) sum += value;
  }
  return sum;
}

}  // namespace

void quadratic_rows(ConstMatrixView<double> x, ConstMatrixView<double> h_upper,
                    std::span<double> out, Pool& pool) {
  std::fill(out.begin(), out.end(), 0.0);
  for_blocks(x, h_upper, false, pool, [&](std::int64_t j0, MatrixView<double> z) {
    pool.for_ranges(x.rows(), kRowGrain, [&](std::int64_t begin, std::int64_t end) {
      for (std::int64_t r = begin; r < end; ++r) {
        out[static_cast<std::size_t>(r)] += 2.0 * dot(z.row(r), x.row(r) + j0, z.cols());
      }
    });
  });
}

void product_rows(ConstMatrixView<double> x, const RowReader& y, ConstMatrixView<double> h_upper,
                  std::span<double> xx, std::span<double> xy, Pool& pool) {
  std::fill(xx.begin(), xx.end(), 0.0);
  std::fill(xy.begin(), xy.end(), 0.0);
  for_blocks(x, h_upper, true, pool, [&](std::int64_t j0, MatrixView<double> z) {
    pool.for_ranges(x.rows(), kRowGrain, [&](std::int64_t begin, std::int64_t end) {
      std::vector<double> other(static_cast<std::size_t>(z.cols()));
      for (std::int64_t r = begin; r < end; ++r) {
        y(r, j0, other);
        xx[static_cast<std::size_t>(r)] += dot(z.row(r), x.row(r) + j0, z.cols());
        xy[static_cast<std::size_t>(r)] += dot(z.row(r), other.data(), z.cols());
      }
    });
  });
}

double error_form(ConstMatrixView<float> w, ConstMatrixView<float> quantized,
                  ConstMatrixView<double> h_upper, Pool& pool) {
  CORTIQ_ASSERT(quantized.rows() == w.rows() && quantized.cols() == w.cols());
  return form_sum(w, &quantized, h_upper, pool);
}

OutputError output_error(ConstMatrixView<float> w, ConstMatrixView<float> quantized,
                         ConstMatrixView<double> h_upper, Pool& pool) {
  return {error_form(w, quantized, h_upper, pool), form_sum(w, nullptr, h_upper, pool)};
}

}  // namespace cortiq::gptq
