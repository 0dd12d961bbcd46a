// tile.hpp: the register tile of the packed products, and the walk over the tiles of one block.
// Included by *.simd.cpp only; K is F32 or F64 of vec.hpp.
#pragma once

#include "kernels.hpp"
#include "vec.hpp"

namespace cortiq::linalg::CORTIQ_SIMD {

template <typename K>
inline constexpr int kColumns = K::kVectors* K::kLanes;

/// sum[r][v] += A(r, p) * B(p, v) for p in order. Only R rows and N vectors of the sliver are
/// computed.
template <typename K, int R, int N>
CORTIQ_INLINE void multiply_slivers(std::int64_t depth, const typename K::Scalar* a,
                                    const typename K::Scalar* b, typename K::V (&sum)[R][N]) {
  CORTIQ_UNROLL
  for (int r = 0; r < R; ++r) {
    CORTIQ_UNROLL
    for (int v = 0; v < N; ++v) sum[r][v] = K::zero();
  }
  // Not unrolled by hand: GCC 12 then renames sums between steps and spills some of them.
  for (std::int64_t p = 0; p < depth; ++p) {
    typename K::V row[N];
    CORTIQ_UNROLL
    for (int v = 0; v < N; ++v) row[v] = K::load(b + v * K::kLanes);
    CORTIQ_UNROLL
    for (int r = 0; r < R; ++r) {
      const typename K::V x = K::splat(a[r]);
      CORTIQ_UNROLL
      for (int v = 0; v < N; ++v) sum[r][v] = K::fma(x, row[v], sum[r][v]);
    }
    a += K::kRows;
    b += kColumns<K>;
  }
}

/// How a finished sum enters C: beta*C + alpha*sum in the type of the operands.
template <typename K>
class ScaleStore {
 public:
  using Out = typename K::Scalar;
  using Args = BlockArgs<Out, Out>;
  explicit CORTIQ_INLINE ScaleStore(const Args& g)
      : alpha_(K::splat(g.alpha)), beta_(K::splat(g.beta)), overwrite_(g.beta == Out(0)) {}
  CORTIQ_INLINE void vector(Out* c, typename K::V sum) const {
    K::store(c, overwrite_ ? K::mul(alpha_, sum) : K::fma(alpha_, sum, K::mul(beta_, K::load(c))));
  }
  CORTIQ_INLINE void scalar(const Args& g, Out* c, Out sum) const {
    *c = overwrite_ ? g.alpha * sum : K::fma1(g.alpha, sum, g.beta * *c);
  }

 private:
  typename K::V alpha_;
  typename K::V beta_;
  bool overwrite_;
};

/// How a finished f32 sum enters an f64 C: C + sum.
template <typename K>
class WidenStore {
 public:
  using Out = double;
  using Args = BlockArgs<float, double>;
  explicit CORTIQ_INLINE WidenStore(const Args&) {}
  CORTIQ_INLINE void vector(double* c, typename K::V sum) const { K::add_f64(c, sum); }
  CORTIQ_INLINE void scalar(const Args&, double* c, float sum) const {
    *c += static_cast<double>(sum);
  }
};

/// One register tile of a block.
template <typename K, typename Store>
struct Tile {
  const typename K::Scalar* a;
  const typename K::Scalar* b;
  std::int64_t depth;
  std::int64_t rows;
  std::int64_t cols;
  std::int64_t offset;  ///< global row minus global column of the first element
  typename Store::Out* c;
};

/// A tile that fills its registers and lies inside the region.
template <typename K, typename Store>
CORTIQ_INLINE void whole_tile(const typename Store::Args& g, const Tile<K, Store>& t) {
  typename K::V sum[K::kRows][K::kVectors];
  multiply_slivers<K>(t.depth, t.a, t.b, sum);
  const Store store(g);
  const std::int64_t stride = g.stride;
  CORTIQ_UNROLL
  for (int r = 0; r < K::kRows; ++r) {
    CORTIQ_UNROLL
    for (int v = 0; v < K::kVectors; ++v) {
      store.vector(t.c + r * stride + v * K::kLanes, sum[r][v]);
    }
  }
}

inline bool inside(Region region, std::int64_t row_minus_col) {
  return region == Region::kAll ||
         (region == Region::kUpper ? row_minus_col <= 0 : row_minus_col >= 0);
}

/// A tile at an edge or across the diagonal: R >= rows, N vectors >= cols; written element by
/// element.
template <typename K, typename Store, int R, int N>
void partial_tile(const typename Store::Args& g, const Tile<K, Store>& t) {
  typename K::V sum[R][N];
  multiply_slivers<K>(t.depth, t.a, t.b, sum);
  constexpr int kWidth = N * K::kLanes;
  typename K::Scalar values[R * kWidth];
  CORTIQ_UNROLL
  for (int r = 0; r < R; ++r) {
    CORTIQ_UNROLL
    for (int v = 0; v < N; ++v) K::store(values + r * kWidth + v * K::kLanes, sum[r][v]);
  }
  const Store store(g);
  for (std::int64_t r = 0; r < t.rows; ++r) {
    std::int64_t first = 0;
    std::int64_t last = t.cols;
    if (g.region == Region::kUpper && t.offset + r > 0) first = t.offset + r;
    if (g.region == Region::kLower && t.offset + r + 1 < last) last = t.offset + r + 1;
    typename Store::Out* c = t.c + r * g.stride;
    for (std::int64_t j = first; j < last; ++j) store.scalar(g, c + j, values[r * kWidth + j]);
  }
}

template <typename K, typename Store, int N>
void partial_rows(const typename Store::Args& g, const Tile<K, Store>& t) {
  if (t.rows <= 1) return partial_tile<K, Store, 1, N>(g, t);
  if (t.rows <= 2) return partial_tile<K, Store, 2, N>(g, t);
  if (t.rows <= 4) return partial_tile<K, Store, 4, N>(g, t);
  partial_tile<K, Store, K::kRows, N>(g, t);
}

/// The part of the depth where neither sliver is known to be zero.
template <typename K, typename Store>
CORTIQ_INLINE void cut_depth(const typename Store::Args& g, std::int64_t row, std::int64_t col,
                             Tile<K, Store>& t) {
  if (g.triangular == Triangular::kLowerA) {
    const std::int64_t end = g.row0 + row + K::kRows;
    if (end < t.depth) t.depth = end;
  } else if (g.triangular == Triangular::kLowerB) {
    const std::int64_t begin = g.col0 + col < t.depth ? g.col0 + col : t.depth;
    t.a += begin * K::kRows;
    t.b += begin * kColumns<K>;
    t.depth -= begin;
  }
}

/// C is updated after the whole depth: its lines arrive meanwhile. (Fetching one tile ahead is
/// slower: rows a power of two apart share cache sets.)
template <typename K, typename Store>
CORTIQ_INLINE void prefetch_tile(const typename Store::Args& g, const Tile<K, Store>& t) {
  CORTIQ_UNROLL
  for (int r = 0; r < K::kRows; ++r) {
    __builtin_prefetch(t.c + r * g.stride, 0);
    __builtin_prefetch(t.c + r * g.stride + t.cols - 1, 0);
  }
}

/// All tiles of a block. Columns outside, rows inside: a sliver of B stays in the first-level cache
/// while the block of A streams from the second.
template <typename K, typename Store>
void multiply_block(const typename Store::Args& g) {
  constexpr std::int64_t kTileRows = K::kRows;
  constexpr std::int64_t kTileCols = kColumns<K>;
  for (std::int64_t col = 0; col < g.cols; col += kTileCols) {
    const std::int64_t cols = g.cols - col < kTileCols ? g.cols - col : kTileCols;
    for (std::int64_t row = 0; row < g.rows; row += kTileRows) {
      const std::int64_t rows = g.rows - row < kTileRows ? g.rows - row : kTileRows;
      Tile<K, Store> t{g.a + row * g.depth,         g.b + col * g.depth,       g.depth, rows, cols,
                       g.row0 + row - g.col0 - col, g.c + row * g.stride + col};
      const bool top_right = inside(g.region, t.offset - (cols - 1));
      const bool bottom_left = inside(g.region, t.offset + rows - 1);
      if (!top_right && !bottom_left) continue;
      cut_depth<K, Store>(g, row, col, t);
      if (rows == kTileRows) prefetch_tile<K, Store>(g, t);
      if (rows == kTileRows && cols == kTileCols && top_right && bottom_left) {
        whole_tile<K, Store>(g, t);
      } else if (cols <= K::kLanes) {
        partial_rows<K, Store, 1>(g, t);
      } else {
        partial_rows<K, Store, K::kVectors>(g, t);
      }
    }
  }
}

}  // namespace cortiq::linalg::CORTIQ_SIMD
