#include "packing.hpp"
#include "tile.hpp"

namespace cortiq::linalg::CORTIQ_SIMD {
namespace {

/// One sliver of rows of X, transposed: x[p*nr + row]. Solves columns [first, first + kRows) of X *
/// L^T = B.
template <int R>
CORTIQ_INLINE void solve_step(const SolveArgs& args, std::int64_t first, double* x) {
  using V = F64::V;
  constexpr int kWidth = kColumns<F64>;
  const double* l = args.l + first * args.n;  // the packed rows [first, first + kRows) of L
  V sum[R][F64::kVectors];
  multiply_slivers<F64>(first, l, x, sum);
  const double* diagonal = l + first * F64::kRows;
  CORTIQ_UNROLL
  for (int i = 0; i < R; ++i) {
    const V inverse = F64::splat(args.inverse[first + i]);
    CORTIQ_UNROLL
    for (int v = 0; v < F64::kVectors; ++v) {
      double* place = x + (first + i) * kWidth + v * F64::kLanes;
      V value = F64::sub(F64::load(place), sum[i][v]);
      CORTIQ_UNROLL
      for (int q = 0; q < i; ++q) {
        value = F64::fnma(F64::splat(diagonal[q * F64::kRows + i]), sum[q][v], value);
      }
      sum[i][v] = F64::mul(value, inverse);  // from here on sum[i] holds the solution
      F64::store(place, sum[i][v]);
    }
  }
}

/// The last columns, fewer than kRows, one at a time.
void solve_tail(const SolveArgs& args, std::int64_t first, double* x) {
  constexpr int kWidth = kColumns<F64>;
  const double* l = args.l + first * args.n;
  for (std::int64_t i = first; i < args.n; ++i) {
    for (int row = 0; row < kWidth; ++row) {
      double value = x[i * kWidth + row];
      for (std::int64_t p = 0; p < i; ++p) {
        value = F64::fma1(-l[p * F64::kRows + i - first], x[p * kWidth + row], value);
      }
      x[i * kWidth + row] = value * args.inverse[i];
    }
  }
}

void solve(const SolveArgs& args) {
  constexpr int kWidth = kColumns<F64>;
  double* x = args.scratch;
  for (std::int64_t row = 0; row < args.rows; row += kWidth) {
    const std::int64_t rows = args.rows - row < kWidth ? args.rows - row : kWidth;
    double* b = args.b + row * args.stride;
    pack<double, kWidth>({b, args.stride, true, rows, args.n, x});
    std::int64_t first = 0;
    for (; first + F64::kRows <= args.n; first += F64::kRows) {
      solve_step<F64::kRows>(args, first, x);
    }
    if (first < args.n) solve_tail(args, first, x);
    for (std::int64_t r = 0; r < rows; ++r) {
      for (std::int64_t p = 0; p < args.n; ++p) b[r * args.stride + p] = x[p * kWidth + r];
    }
  }
}

}  // namespace

const Kernels<double>& kernels_f64() {
  static constexpr Kernels<double> kTable{F64::kRows,
                                          kColumns<F64>,
                                          pack<double, F64::kRows>,
                                          pack<double, kColumns<F64>>,
                                          multiply_block<F64, ScaleStore<F64>>,
                                          nullptr,
                                          solve};
  return kTable;
}

}  // namespace cortiq::linalg::CORTIQ_SIMD
