// gemm_tile.glsl: which tile of C a workgroup of a product forms, and which chunks of K count for it (flags of GemmPush).
// Tiles are numbered so that eight rows of tiles share a column of B. Needs `push` of type GemmPush.
#ifndef CORTIQ_GEMM_TILE_GLSL
#define CORTIQ_GEMM_TILE_GLSL

const uint kBand = 8u;  // rows of tiles that are walked together

struct Tile {
  uint m, n;         // its place among the tiles
  uint first, last;  // chunks [first, last)
  bool wanted;       // false: nothing to do, not even to store
};

Tile find_tile(uint rows, uint columns) {
  Tile tile = Tile(0u, 0u, 0u, 0u, false);
  const uint id = workgroup_number();
  if (id >= push.tiles_m * push.tiles_n) return tile;
  const uint band = id / (kBand * push.tiles_n);
  const uint in_band = id % (kBand * push.tiles_n);
  const uint band_rows = min(push.tiles_m - band * kBand, kBand);
  tile.m = band * kBand + in_band % band_rows;
  tile.n = in_band / band_rows;
  const uint column = push.col0 + tile.n * columns;
  tile.wanted = (push.flags & kGemmLowerOnly) == 0u || column <= push.row0 + tile.m * rows + rows - 1u;
  const uint block = column / kTile * kTile;
  uint begin = push.k0, end = push.k0 + push.chunks * kChunk;
  if ((push.flags & kGemmTriangularB) != 0u) begin = max(begin, column);
  if ((push.flags & kGemmBehindB) != 0u) begin = max(begin, block + kTile);
  if ((push.flags & kGemmDiagonalB) != 0u) {
    begin = max(begin, block);
    end = max(min(end, block + kTile), push.k0);
  }
  tile.first = min((begin - push.k0) / kChunk, push.chunks);
  tile.last = max((end - push.k0) / kChunk, tile.first);
  return tile;
}
#endif
