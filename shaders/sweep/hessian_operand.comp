#version 450
// hessian_operand: H_d / base in elimination order, full and symmetric, as operand lines (K = row) and as f32 diagonal
// blocks. Dead channels: zero but for their damped diagonal. The padding is zero.
// Push: OperandPush. Constants: 0 = threads (256), 1 = split operand. One workgroup per 32 x 32 tile.
#extension GL_GOOGLE_include_directive : require
#include "types.glsl"
#include "layout.h"
#include "split.glsl"
layout(local_size_x_id = 0) in;
layout(constant_id = 1) const uint kSplit = 0u;
layout(push_constant, scalar) uniform Push { OperandPush push; };
#include "hessian.glsl"

shared float tile[32][33];

void main() {
  const uint id = workgroup_number();
  const uint tile_j = id / push.tiles, tile_k = id % push.tiles;
  if (tile_j >= push.tiles) return;
  const uint thread = gl_LocalInvocationID.x;
  const uint lane = thread % 32u;
  const bool inside = tile_j * 32u / push.block == tile_k * 32u / push.block;
  for (uint r = thread / 32u; r < 32u; r += gl_WorkGroupSize.x / 32u) {
    const uint j = tile_j * 32u + r, k = tile_k * 32u + lane;
    float h = 0.0;
    if (j < push.n && k < push.n) {
      const uint a = push.channel.at[j], b = push.channel.at[k];
      const float inverse = push.inverse.at[j];
      if (j == k) {
        h = 1.0 / (inverse * inverse);
      } else if (((a | b) & kDeadBit) == 0u) {
        h = packed_h(a, b) * push.base_inverse;
      }
    }
    tile[r][lane] = h;
    if (inside)
      advance(push.band, uint64_t(j) * push.block).at[k % push.block] = h;
  }
  barrier();
  const uint k = thread / 8u, quarter = thread % 8u;
  const vec4 v = vec4(tile[quarter * 4u][k], tile[quarter * 4u + 1u][k], tile[quarter * 4u + 2u][k],
                      tile[quarter * 4u + 3u][k]);
  Uvec4s line = offset_lines(push.out_lines, uint64_t(tile_j) * push.size + tile_k * 32u + k);
  store_line(line, quarter, v, kSplit != 0u, push.scale);
}
