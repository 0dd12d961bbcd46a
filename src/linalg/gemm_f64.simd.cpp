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

/// The last columns, at most R of them.
template <int R>
void solve_tail(const SolveArgs& args, std::int64_t first, double* x) {
  if (args.n - first == R) return solve_step<R>(args, first, x);
  if constexpr (R > 1) solve_tail<R - 1>(args, first, x);
}

/// Columns outside, slivers of rows inside: the packed rows of L stay in the first-level cache, and
/// the substitution of one sliver overlaps with the products of the next.
void solve(const SolveArgs& args) {
  constexpr int kWidth = kColumns<F64>;
  const std::int64_t n = args.n;
  pack<double, kWidth>({args.b, args.stride, true, args.rows, n, args.scratch});
  for (std::int64_t first = 0; first < n; first += F64::kRows) {
    for (std::int64_t row = 0; row < args.rows; row += kWidth) {
      double* x = args.scratch + row * n;
      if (first + F64::kRows <= n) {
        solve_step<F64::kRows>(args, first, x);
      } else {
        solve_tail<F64::kRows - 1>(args, first, x);
      }
    }
  }
  for (std::int64_t row = 0; row < args.rows; row += kWidth) {
    const std::int64_t rows = args.rows - row < kWidth ? args.rows - row : kWidth;
    unpack_transposed<double, kWidth>(args.scratch + row * n, rows, n, args.b + row * args.stride,
                                      args.stride);
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
