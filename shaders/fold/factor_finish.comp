#version 450
// factor_finish: U[j][k] = X[n-1-j][n-1-k] / D_k (k >= j) from the inverse factor X in reversed order: as operand lines of
// U^T (K = j, rows = k) right of the diagonal blocks, and as f32 diagonal blocks of `block` columns. The padding gets a
// unit diagonal. Lines left of and inside the diagonal blocks are zero.
// status[1] counts values that are not finite or, times scale, beyond what an f16 half holds.
// Push: FactorPush. Constants: 0 = threads (256), 1 = split operand. One workgroup per 32 x 32 tile (j, k >= j).
#extension GL_GOOGLE_include_directive : require
#include "types.glsl"
#include "layout.h"
#include "split.glsl"
layout(local_size_x_id = 0) in;
layout(constant_id = 1) const uint kSplit = 0u;
layout(push_constant, scalar) uniform Push { FactorPush push; };

const float kLargestHalf = 65504.0;
shared float tile[32][33];

void main() {
  const uint id = workgroup_number();
  const uint tile_j = id / push.tiles, tile_k = id % push.tiles;
  if (tile_j >= push.tiles) return;
  const uint thread = gl_LocalInvocationID.x;
  const uint lane = thread % 32u;
  const bool inside = tile_j * 32u / push.block == tile_k * 32u / push.block;
  const bool below = tile_k < tile_j;
  for (uint r = thread / 32u; r < 32u; r += gl_WorkGroupSize.x / 32u) {
    const uint j = tile_j * 32u + r, k = tile_k * 32u + lane;
    float u = j == k ? 1.0 : 0.0;
    if (j <= k && k < push.n) {
      const uint i = push.n - 1u - j, c = push.n - 1u - k;
      u = advance(push.x, uint64_t(i) * push.size).at[c] * push.inverse.at[c];
      const bool too_large = kSplit != 0u && !inside && abs(u) * push.scale > kLargestHalf;
      if (!is_finite(u) || too_large) atomicAdd(push.status.at[1], 1u);
    }
    tile[r][lane] = u;
    if (inside) advance(push.band, uint64_t(j) * push.block).at[k % push.block] = u;
  }
  barrier();
  // Eight threads write the line of one k: four j each.
  const uint k = thread / 8u, quarter = thread % 8u;
  vec4 v = vec4(0.0);
  if (!inside && !below)
    v = vec4(tile[quarter * 4u][k], tile[quarter * 4u + 1u][k], tile[quarter * 4u + 2u][k],
             tile[quarter * 4u + 3u][k]);
  Uvec4s line = offset_lines(push.out_lines, uint64_t(tile_j) * push.size + tile_k * 32u + k);
  store_line(line, quarter, v, kSplit != 0u, push.scale);
}
