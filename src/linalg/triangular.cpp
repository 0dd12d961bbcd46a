// L = [L11 0; L21 L22]: with X11 = L11^-1 and X22 = L22^-1 the lower left part of the inverse is
// -X22 L21 X11. Both products run in place, because a packed product reads all of its operand
// before it writes.
#include <algorithm>

#include "cortiq/linalg/cholesky.hpp"
#include "product.hpp"
#include "split.hpp"

namespace cortiq::linalg {
namespace {

constexpr std::int64_t kLeaf = 32;

void invert_leaf(MatrixView<double> l) {
  const std::int64_t n = l.rows();
  double row[kLeaf];
  for (std::int64_t i = 0; i < n; ++i) {
    const double inverse = 1.0 / l(i, i);
    for (std::int64_t j = 0; j < i; ++j) row[j] = 0.0;
    for (std::int64_t k = 0; k < i; ++k) {
      const double factor = l(i, k);
      const double* above = l.row(k);  // row k of the inverse already
      for (std::int64_t j = 0; j <= k; ++j) row[j] += factor * above[j];
    }
    for (std::int64_t j = 0; j < i; ++j) l(i, j) = -row[j] * inverse;
    l(i, i) = inverse;
  }
}

/// B = alpha * T * B.
void multiply_left(double alpha, ConstMatrixView<double> t, MatrixView<double> b, Pool& pool) {
  const std::int64_t n = t.rows();
  if (n <= kMaxDepthF64) {
    multiply(Product<double>{.m = n,
                             .n = b.cols(),
                             .k = n,
                             .alpha = alpha,
                             .a = {t.data(), t.stride(), true},
                             .b = {b.data(), b.stride(), false},
                             .beta = 0.0,
                             .c = b.data(),
                             .stride = b.stride(),
                             .triangular = Triangular::kLowerA},
             pool);
    return;
  }
  const std::int64_t head = split_order(n);
  const std::int64_t tail = n - head;
  const MatrixView<double> B0 = b.block(0, 0, head, b.cols());
  const MatrixView<double> B1 = b.block(head, 0, tail, b.cols());
  multiply_left(alpha, t.block(head, head, tail, tail), B1, pool);
  multiply(Product<double>{.m = tail,
                           .n = b.cols(),
                           .k = head,
                           .alpha = alpha,
                           .a = {t.row(head), t.stride(), true},
                           .b = {B0.data(), b.stride(), false},
                           .beta = 1.0,
                           .c = B1.data(),
                           .stride = b.stride()},
           pool);
  multiply_left(alpha, t.block(0, 0, head, head), B0, pool);
}

/// B = B * T.
void multiply_right(MatrixView<double> b, ConstMatrixView<double> t, Pool& pool) {
  const std::int64_t n = t.rows();
  if (n <= kMaxDepthF64) {
    multiply(Product<double>{.m = b.rows(),
                             .n = n,
                             .k = n,
                             .alpha = 1.0,
                             .a = {b.data(), b.stride(), true},
                             .b = {t.data(), t.stride(), false},
                             .beta = 0.0,
                             .c = b.data(),
                             .stride = b.stride(),
                             .triangular = Triangular::kLowerB},
             pool);
    return;
  }
  const std::int64_t head = split_order(n);
  const std::int64_t tail = n - head;
  const MatrixView<double> B0 = b.block(0, 0, b.rows(), head);
  const MatrixView<double> B1 = b.block(0, head, b.rows(), tail);
  multiply_right(B0, t.block(0, 0, head, head), pool);
  multiply(Product<double>{.m = b.rows(),
                           .n = head,
                           .k = tail,
                           .alpha = 1.0,
                           .a = {B1.data(), b.stride(), true},
                           .b = {t.row(head), t.stride(), false},
                           .beta = 1.0,
                           .c = B0.data(),
                           .stride = b.stride()},
           pool);
  multiply_right(B1, t.block(head, head, tail, tail), pool);
}

void invert(MatrixView<double> l, Pool& pool) {
  const std::int64_t n = l.rows();
  if (n <= kLeaf) return invert_leaf(l);
  const std::int64_t head = split_order(n);
  const std::int64_t tail = n - head;
  const MatrixView<double> L11 = l.block(0, 0, head, head);
  const MatrixView<double> L21 = l.block(head, 0, tail, head);
  const MatrixView<double> L22 = l.block(head, head, tail, tail);
  invert(L11, pool);
  invert(L22, pool);
  multiply_left(-1.0, L22, L21, pool);
  multiply_right(L21, L11, pool);
}

}  // namespace

void invert_lower_in_place(MatrixView<double> l, Pool& pool) {
  CORTIQ_ASSERT(l.rows() == l.cols());
  invert(l, pool);
}

}  // namespace cortiq::linalg
