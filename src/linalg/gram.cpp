#include "cortiq/linalg/gram.hpp"

#include <algorithm>

#include "product.hpp"

namespace cortiq::linalg {
namespace {

/// Square tiles of mirror_upper: two of them fit a 32 KiB first-level cache.
constexpr std::int64_t kMirrorTile = 32;

void mirror_tile(MatrixView<double> h, std::int64_t row0, std::int64_t col0) {
  const std::int64_t row_end = std::min(row0 + kMirrorTile, h.rows());
  const std::int64_t col_end = std::min(col0 + kMirrorTile, h.cols());
  for (std::int64_t col = col0; col < col_end; ++col) {
    double* target = h.row(col);
    for (std::int64_t row = row0; row < std::min(row_end, col); ++row) target[row] = h(row, col);
  }
}

}  // namespace

void gram_accumulate(ConstMatrixView<float> x, MatrixView<double> h, Pool& pool) {
  const std::int64_t n = x.cols();
  CORTIQ_ASSERT(h.rows() == n && h.cols() == n);
  static_assert(kGramBlockTokens <= kMaxDepthF32, "a block of tokens is one f32 sum");
  for (std::int64_t t = 0; t < x.rows(); t += kGramBlockTokens) {
    const Operand<float> lines{x.row(t), x.stride(), false};
    multiply(Product<float, double>{.m = n,
                                    .n = n,
                                    .k = std::min(kGramBlockTokens, x.rows() - t),
                                    .alpha = 1.0F,
                                    .a = lines,
                                    .b = lines,
                                    .beta = 1.0F,
                                    .c = h.data(),
                                    .stride = h.stride(),
                                    .region = Region::kUpper},
             pool);
  }
}

void cross_accumulate(ConstMatrixView<float> x, ConstMatrixView<float> y, MatrixView<double> c,
                      Pool& pool) {
  CORTIQ_ASSERT(x.rows() == y.rows() && c.rows() == x.cols() && c.cols() == y.cols());
  for (std::int64_t t = 0; t < x.rows(); t += kGramBlockTokens) {
    multiply(Product<float, double>{.m = x.cols(),
                                    .n = y.cols(),
                                    .k = std::min(kGramBlockTokens, x.rows() - t),
                                    .alpha = 1.0F,
                                    .a = {x.row(t), x.stride(), false},
                                    .b = {y.row(t), y.stride(), false},
                                    .beta = 1.0F,
                                    .c = c.data(),
                                    .stride = c.stride()},
             pool);
  }
}

void mirror_upper(MatrixView<double> h, Pool& pool) {
  CORTIQ_ASSERT(h.rows() == h.cols());
  const std::int64_t tiles = (h.rows() + kMirrorTile - 1) / kMirrorTile;
  pool.for_each(tiles, [&](std::int64_t tile_row) {
    for (std::int64_t tile_col = tile_row; tile_col < tiles; ++tile_col) {
      mirror_tile(h, tile_row * kMirrorTile, tile_col * kMirrorTile);
    }
  });
}

}  // namespace cortiq::linalg
