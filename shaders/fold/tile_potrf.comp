#version 450
// tile_potrf: Cholesky factor of one 128 x 128 diagonal block and the inverse of that factor, which is all that the rest
// of the algorithm needs (the factor itself is not written). The matrix stays in registers, 8 x 8 a thread.
// A pivot that is not positive sets status[0] to its column + 1 (the first one stays) and goes on with 1.
// Push: PotrfPush. Constants: 0 = threads (256). One workgroup.
#extension GL_GOOGLE_include_directive : require
#include "types.glsl"
#include "layout.h"
layout(local_size_x_id = 0) in;
layout(push_constant, scalar) uniform Push { PotrfPush push; };

shared float column_of[2][128], row_of[2][128];

void main() {
  const uint thread = gl_LocalInvocationID.x, ti = thread % 16u, tj = thread / 16u;
  float r[8][8], x[8][8];
  [[unroll]] for (uint a = 0u; a < 8u; ++a)
    [[unroll]] for (uint b = 0u; b < 8u; ++b) {
      const uint i = ti + 16u * a, j = tj + 16u * b;
      r[a][b] = j <= i ? push.a.at[i * push.stride + j] : 0.0;
      x[a][b] = i == j ? 1.0 : 0.0;
    }
  [[unroll]] for (uint block = 0u; block < 8u; ++block) {
    for (uint step = 0u; step < 16u; ++step) {
      const uint k = block * 16u + step, u = step & 1u;
      if (tj == step)
        [[unroll]] for (uint a = block; a < 8u; ++a) column_of[u][ti + 16u * a] = r[a][block];
      if (ti == step)
        [[unroll]] for (uint b = 0u; b <= block; ++b) row_of[u][tj + 16u * b] = x[block][b];
      barrier();
      float pivot = column_of[u][k];
      if (!(pivot > 0.0)) {
        if (thread == 0u && push.status.at[0] == 0u) push.status.at[0] = push.column + k + 1u;
        pivot = 1.0;
      }
      float scale = inversesqrt(pivot);
      scale = scale * (1.5 - 0.5 * pivot * scale * scale);  // one Newton step: inversesqrt is approximate
      float li[8], lj[8], xr[8];
      [[unroll]] for (uint a = block; a < 8u; ++a) li[a] = column_of[u][ti + 16u * a] * scale;
      [[unroll]] for (uint b = block; b < 8u; ++b) lj[b] = column_of[u][tj + 16u * b] * scale;
      [[unroll]] for (uint b = 0u; b <= block; ++b) xr[b] = row_of[u][tj + 16u * b] * scale;
      if (tj == step)
        [[unroll]] for (uint a = block; a < 8u; ++a) r[a][block] = li[a];
      if (ti == step)
        [[unroll]] for (uint b = 0u; b <= block; ++b) x[block][b] = xr[b];
      if (tj <= step) lj[block] = 0.0;
      const float below = ti > step ? li[block] : 0.0;
      [[unroll]] for (uint a = block; a < 8u; ++a)
        [[unroll]] for (uint b = block; b < 8u; ++b) r[a][b] = fma(-li[a], lj[b], r[a][b]);
      [[unroll]] for (uint b = 0u; b <= block; ++b) x[block][b] = fma(-below, xr[b], x[block][b]);
      [[unroll]] for (uint a = block + 1u; a < 8u; ++a)
        [[unroll]] for (uint b = 0u; b <= block; ++b) x[a][b] = fma(-li[a], xr[b], x[a][b]);
    }
  }
  [[unroll]] for (uint a = 0u; a < 8u; ++a)
    [[unroll]] for (uint b = 0u; b < 8u; ++b) {
      const uint i = ti + 16u * a, j = tj + 16u * b;
      push.inverse.at[i * 128u + j] = j <= i ? x[a][b] : 0.0;
    }
}
