#include "row_ops.hpp"

#include <algorithm>
#include <atomic>
#include <limits>

#include "cortiq/support/cpu.hpp"
#include "kernels.hpp"

namespace cortiq::model {
namespace {

/// Rows of one task: enough work to outweigh its start, few enough to stay in the second-level
/// cache.
constexpr std::int64_t kGrainRows = 32;

Rows rows_at(MatrixView<float> m, std::int64_t row) { return {m.row(row), m.stride()}; }
ConstRows rows_at(ConstMatrixView<float> m, std::int64_t row) { return {m.row(row), m.stride()}; }

Gate gate_of(Activation activation) {
  switch (activation) {
    case Activation::kSilu:
      return Gate::kSilu;
    case Activation::kGeluTanh:
      return Gate::kGeluTanh;
    case Activation::kGelu:
      return Gate::kGelu;
  }
  return Gate::kSilu;
}

}  // namespace

void norm_rows(ConstMatrixView<float> x, std::span<const float> weight, double eps,
               MatrixView<float> out, Pool& pool) {
  CORTIQ_DCHECK(static_cast<std::int64_t>(weight.size()) == x.cols());
  pool.for_ranges(x.rows(), kGrainRows, [&](std::int64_t begin, std::int64_t end) {
    CORTIQ_SIMD_DISPATCH(pool.simd(), rms_norm, rows_at(x, begin), end - begin, x.cols(),
                         weight.data(), eps, rows_at(out, begin));
  });
}

std::optional<std::int64_t> add_matrix(MatrixView<float> h, ConstMatrixView<float> y, Pool& pool) {
  constexpr std::int64_t kNone = std::numeric_limits<std::int64_t>::max();
  std::atomic<std::int64_t> first_bad{kNone};
  pool.for_ranges(h.rows(), kGrainRows, [&](std::int64_t begin, std::int64_t end) {
    const std::int64_t bad = CORTIQ_SIMD_DISPATCH(pool.simd(), add_rows, rows_at(h, begin),
                                                  rows_at(y, begin), end - begin, h.cols());
    if (bad < 0) return;
    std::int64_t seen = first_bad.load();
    while (begin + bad < seen && !first_bad.compare_exchange_weak(seen, begin + bad)) {
    }
  });
  if (first_bad.load() == kNone) return std::nullopt;
  return first_bad.load();
}

void activate_rows(Activation activation, MatrixView<float> gate, ConstMatrixView<float> up,
                   Pool& pool) {
  const Gate kind = gate_of(activation);
  pool.for_ranges(gate.rows(), kGrainRows, [&](std::int64_t begin, std::int64_t end) {
    CORTIQ_SIMD_DISPATCH(pool.simd(), gate_product, kind, rows_at(gate, begin), rows_at(up, begin),
                         end - begin, gate.cols());
  });
}

void soft_cap_rows(MatrixView<float> x, double cap, Pool& pool) {
  pool.for_ranges(x.rows(), kGrainRows, [&](std::int64_t begin, std::int64_t end) {
    CORTIQ_SIMD_DISPATCH(pool.simd(), soft_cap, rows_at(x, begin), static_cast<float>(cap),
                         end - begin, x.cols());
  });
}

void scale_matrix(MatrixView<float> x, float factor, Pool& pool) {
  pool.for_ranges(x.rows(), kGrainRows, [&](std::int64_t begin, std::int64_t end) {
    CORTIQ_SIMD_DISPATCH(pool.simd(), scale_rows, rows_at(x, begin), factor, end - begin, x.cols());
  });
}

void gather_rows(ConstMatrixView<float> x, std::span<const std::int32_t> index,
                 MatrixView<float> out, Pool& pool) {
  CORTIQ_DCHECK(static_cast<std::int64_t>(index.size()) == out.rows());
  pool.for_ranges(out.rows(), kGrainRows, [&](std::int64_t begin, std::int64_t end) {
    for (std::int64_t r = begin; r < end; ++r)
      std::copy_n(x.row(index[static_cast<std::size_t>(r)]), out.cols(), out.row(r));
  });
}

void add_scaled_rows(MatrixView<float> h, std::span<const std::int32_t> index,
                     std::span<const float> factor, ConstMatrixView<float> y, Pool& pool) {
  pool.for_ranges(y.rows(), kGrainRows, [&](std::int64_t begin, std::int64_t end) {
    CORTIQ_SIMD_DISPATCH(pool.simd(), add_scaled, rows_at(h, 0), index.data() + begin,
                         factor.data() + begin, rows_at(y, begin), end - begin, y.cols());
  });
}

}  // namespace cortiq::model
