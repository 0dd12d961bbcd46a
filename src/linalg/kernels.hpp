// kernels.hpp: the tables of packed kernels, one per element type and instruction set.
//
// Packed operands: op(A) [rows, depth] is cut into slivers of mr rows, op(B) [depth, cols] into
// slivers of nr columns. A sliver holds depth * mr (nr) elements, depth outermost, padded with
// zeros at the edge; slivers follow one another. Each output element is one chain of multiply-adds
// over depth in order, wherever its tile lies.
#pragma once

#include <cstdint>

namespace cortiq::linalg {

/// Which part of the output is computed and written; row and column count from the origin of the
/// whole output.
enum class Region { kAll, kUpper, kLower };
/// Operand whose elements above its own diagonal count as zero (and are not read).
enum class Triangular { kNone, kLowerA, kLowerB };

/// count lines of an operand (rows of op(A), columns of op(B)), each of `depth` elements, into
/// slivers.
template <typename T>
struct PackArgs {
  const T* source;
  std::int64_t stride;  ///< between rows of the stored matrix
  bool depth_is_inner;  ///< element (line, p) at source[line*stride + p], else at source[p*stride +
                        ///< line]
  std::int64_t count;
  std::int64_t depth;
  T* packed;
};

/// C [rows, cols] = beta*C + alpha * A * B on one block of packed slivers.
template <typename T, typename Out>
struct BlockArgs {
  std::int64_t rows;
  std::int64_t cols;
  std::int64_t depth;
  const T* a;
  const T* b;
  T alpha;
  T beta;
  Out* c;
  std::int64_t stride;
  std::int64_t row0;  ///< position of c in the whole output
  std::int64_t col0;
  Region region;
  Triangular triangular;
};

/// Rows of X with X * L^T = B, in place, for a packed L.
struct SolveArgs {
  std::int64_t rows;
  std::int64_t n;         ///< order of L
  const double* l;        ///< L as packed op(A)
  const double* inverse;  ///< 1 / L(i,i)
  double* b;
  std::int64_t stride;
  double* scratch;  ///< n * nr
};

template <typename T>
struct Kernels {
  std::int64_t mr;
  std::int64_t nr;
  void (*pack_a)(const PackArgs<T>&);
  void (*pack_b)(const PackArgs<T>&);
  void (*block)(const BlockArgs<T, T>&);
  /// f32 only: C (f64) += A * B with the products summed in f32; alpha and beta are not used.
  void (*block_add_f64)(const BlockArgs<T, double>&);
  /// f64 only.
  void (*solve)(const SolveArgs&);
};

namespace portable {
const Kernels<float>& kernels_f32();
const Kernels<double>& kernels_f64();
}  // namespace portable
namespace avx2 {
const Kernels<float>& kernels_f32();
const Kernels<double>& kernels_f64();
}  // namespace avx2
namespace avx512 {
const Kernels<float>& kernels_f32();
const Kernels<double>& kernels_f64();
}  // namespace avx512

}  // namespace cortiq::linalg
