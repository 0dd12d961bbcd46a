// product.hpp: the one blocked product behind gemm, gram, Cholesky and the triangular inverse.
//
// Per block of depth, op(A) is packed whole and op(B) in column chunks, both shared by all workers;
// then fixed output tiles are computed in any order. Every output element has one writer and one
// order of additions, so the bits do not depend on the pool. Memory: at most rows*kDepth +
// kColumnChunk*kDepth elements.
#pragma once

#include <cstdint>

#include "cortiq/support/parallel.hpp"
#include "kernels.hpp"

namespace cortiq::linalg {

/// op(M) as it lies in memory: lines (rows of op(A), columns of op(B)) along the depth or across
/// it.
template <typename T>
struct Operand {
  const T* data;
  std::int64_t stride;
  bool depth_is_inner;
  /// Where element (line, p) lies.
  [[nodiscard]] const T* at(std::int64_t line, std::int64_t p) const {
    return depth_is_inner ? data + line * stride + p : data + p * stride + line;
  }
};

/// C [m,n] = beta*C + alpha*op(A)*op(B), restricted to a region of C. With Out = double and T =
/// float: C += op(A)*op(B).
template <typename T, typename Out = T>
struct Product {
  std::int64_t m;
  std::int64_t n;
  std::int64_t k;
  T alpha;
  Operand<T> a;
  Operand<T> b;
  T beta;
  Out* c;
  std::int64_t stride;
  Region region = Region::kAll;
  /// A triangular factor needs k <= kMaxDepth; then C may be the other operand (in-place product).
  Triangular triangular = Triangular::kNone;
};

/// Largest depth that is summed before C is updated (elements; f32, f64): an f64 sliver of 8
/// columns and one of 6 rows fill 28 KiB of a 32 KiB first-level cache.
inline constexpr std::int64_t kMaxDepthF32 = 384;
inline constexpr std::int64_t kMaxDepthF64 = 256;

void multiply(const Product<float>& product, Pool& pool);
void multiply(const Product<double>& product, Pool& pool);
void multiply(const Product<float, double>& product, Pool& pool);

[[nodiscard]] const Kernels<float>& kernels_f32(const Pool& pool);
[[nodiscard]] const Kernels<double>& kernels_f64(const Pool& pool);

}  // namespace cortiq::linalg
