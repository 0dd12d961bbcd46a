// A = [A11 .; A21 A22] by halves: L11 = chol(A11), L21 = A21 L11^-T, L22 = chol(A22 - L21 L21^T).
// Nearly all the work is in packed products of large depth. The cut points depend on n alone.
#include "cortiq/linalg/cholesky.hpp"

#include <algorithm>
#include <cmath>

#include "product.hpp"
#include "scratch.hpp"
#include "split.hpp"

namespace cortiq::linalg {
namespace {

/// Order of the unblocked factor: its cost n*32^2/3 is below 1 % of the whole at n = 1024.
constexpr std::int64_t kLeaf = 32;
/// Order of the substitution kernel: one packed sliver of right-hand sides stays in the first-level
/// cache.
constexpr std::int64_t kSolveOrder = 256;
/// Right-hand sides of one task.
constexpr std::int64_t kSolveRows = 48;

/// Row by row of the lower triangle; column j of the rest is held contiguous so that updates are
/// vector code.
std::optional<std::int64_t> factor_leaf(MatrixView<double> a) {
  const std::int64_t n = a.rows();
  double column[kLeaf];
  for (std::int64_t j = 0; j < n; ++j) {
    const double pivot = a(j, j);
    if (!(pivot > 0.0) || !std::isfinite(pivot)) return j;
    const double root = std::sqrt(pivot);
    a(j, j) = root;
    for (std::int64_t i = j + 1; i < n; ++i) {
      column[i] = a(i, j) / root;
      a(i, j) = column[i];
    }
    for (std::int64_t i = j + 1; i < n; ++i) {
      double* row = a.row(i);
      const double factor = column[i];
      for (std::int64_t q = j + 1; q <= i; ++q) row[q] -= factor * column[q];
    }
  }
  return std::nullopt;
}

/// B = B L^-T for a small L: L is packed once, then the rows of B are independent.
void solve_packed(MatrixView<double> b, ConstMatrixView<double> l, Pool& pool) {
  const Kernels<double>& kernels = kernels_f64(pool);
  const std::int64_t n = l.rows();
  const auto packed = make_scratch<double>((n + kernels.mr) * n);
  kernels.pack_a({l.data(), l.stride(), true, n, n, packed.get()});
  double inverse[kSolveOrder];
  for (std::int64_t i = 0; i < n; ++i) inverse[i] = 1.0 / l(i, i);
  const auto solve = [&](std::int64_t row, std::int64_t end) {
    const auto scratch = make_scratch<double>(n * (end - row + kernels.nr));
    kernels.solve({end - row, n, packed.get(), inverse, b.row(row), b.stride(), scratch.get()});
  };
  if (b.rows() <= kSolveRows) return solve(0, b.rows());
  pool.for_ranges(b.rows(), kSolveRows, solve);
}

/// B = B L^-T.
void solve_right_transposed(MatrixView<double> b, ConstMatrixView<double> l, Pool& pool) {
  const std::int64_t n = l.rows();
  if (n <= kSolveOrder) return solve_packed(b, l, pool);
  const std::int64_t head = split_order(n);
  const std::int64_t tail = n - head;
  const MatrixView<double> B0 = b.block(0, 0, b.rows(), head);
  const MatrixView<double> B1 = b.block(0, head, b.rows(), tail);
  solve_right_transposed(B0, l.block(0, 0, head, head), pool);
  multiply(Product<double>{.m = b.rows(),
                           .n = tail,
                           .k = head,
                           .alpha = -1.0,
                           .a = {B0.data(), b.stride(), true},
                           .b = {l.row(head), l.stride(), true},
                           .beta = 1.0,
                           .c = B1.data(),
                           .stride = b.stride()},
           pool);
  solve_right_transposed(B1, l.block(head, head, tail, tail), pool);
}

std::optional<std::int64_t> factor(MatrixView<double> a, Pool& pool) {
  const std::int64_t n = a.rows();
  if (n <= kLeaf) return factor_leaf(a);
  const std::int64_t head = split_order(n);
  const std::int64_t tail = n - head;
  if (const auto bad = factor(a.block(0, 0, head, head), pool)) return bad;
  const MatrixView<double> L21 = a.block(head, 0, tail, head);
  const MatrixView<double> A22 = a.block(head, head, tail, tail);
  solve_right_transposed(L21, a.block(0, 0, head, head), pool);
  const Operand<double> lines{L21.data(), a.stride(), true};
  multiply(Product<double>{.m = tail,
                           .n = tail,
                           .k = head,
                           .alpha = -1.0,
                           .a = lines,
                           .b = lines,
                           .beta = 1.0,
                           .c = A22.data(),
                           .stride = a.stride(),
                           .region = Region::kLower},
           pool);
  if (const auto bad = factor(A22, pool)) return head + *bad;
  return std::nullopt;
}

}  // namespace

std::optional<std::int64_t> cholesky_in_place(MatrixView<double> a, Pool& pool) {
  CORTIQ_ASSERT(a.rows() == a.cols());
  return factor(a, pool);
}

}  // namespace cortiq::linalg
