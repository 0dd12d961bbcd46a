#version 450
// hessian_build: lower triangle of the equilibrated, damped Hessian in reversed elimination order.
// A[i][j] = H[c_i][c_j] * inverse_i * inverse_j for j < i, 1 on the diagonal; dead channels and the padding are
// rows of the identity. c_i = channel[i]. Elements above the diagonal are left alone except inside 32 x 32 tiles.
// Push: BuildPush. Constants: 0 = threads (256). One workgroup per 32 x 32 tile of the lower half.
#extension GL_GOOGLE_include_directive : require
#include "types.glsl"
#include "layout.h"
layout(local_size_x_id = 0) in;
layout(push_constant, scalar) uniform Push { BuildPush push; };

#include "hessian.glsl"

void main() {
  const uint id = workgroup_number();
  const uint tile_i = id / push.tiles, tile_j = id % push.tiles;
  if (tile_i >= push.tiles || tile_j > tile_i) return;
  const uint thread = gl_LocalInvocationID.x;
  const uint j = tile_j * 32u + thread % 32u;
  for (uint r = thread / 32u; r < 32u; r += gl_WorkGroupSize.x / 32u) {
    const uint i = tile_i * 32u + r;
    advance(push.a, uint64_t(i) * push.size).at[j] = equilibrated(i, j, 1.0);
  }
}
