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

// Two columns are eliminated between two barriers: their raw values go through shared memory, and every thread factors
// the 2 x 2 block on the diagonal and substitutes for the rows it needs.
const uint kWide = 2u;
shared float columns[2][kWide][128];  // of the matrix
shared float rows[2][kWide][128];     // of the inverse

// L of the 2 x 2 block: below the diagonal, and the reciprocals of its diagonal.
float l10;
vec2 reciprocal;

float reciprocal_root(float pivot, uint column) {
  if (!(pivot > 0.0)) {
    if (gl_LocalInvocationID.x == 0u && push.status.at[0] == 0u) push.status.at[0] = push.column + column + 1u;
    pivot = 1.0;
  }
  const float scale = inversesqrt(pivot);
  return scale * (1.5 - 0.5 * pivot * scale * scale);  // one Newton step: inversesqrt is approximate
}

void factor_block(uint u, uint k) {
  reciprocal.x = reciprocal_root(columns[u][0][k], k);
  l10 = columns[u][0][k + 1u] * reciprocal.x;
  reciprocal.y = reciprocal_root(fma(-l10, l10, columns[u][1][k + 1u]), k + 1u);
}

// y with L y = v for the 2 x 2 block.
vec2 substitute(float first, float second) {
  const float y = first * reciprocal.x;
  return vec2(y, fma(-l10, y, second) * reciprocal.y);
}

float subtract_dot(float from, vec2 a, vec2 b) { return fma(-a.y, b.y, fma(-a.x, b.x, from)); }

void main() {
  const uint thread = gl_LocalInvocationID.x, ti = thread / 16u, tj = thread % 16u;  // neighbours read neighbouring columns
  float r[8][8], x[8][8];
  [[unroll]] for (uint a = 0u; a < 8u; ++a)
    [[unroll]] for (uint b = 0u; b < 8u; ++b) {
      const uint i = ti + 16u * a, j = tj + 16u * b;
      r[a][b] = b <= a && j <= i ? push.a.at[i * push.stride + j] : 0.0;
      x[a][b] = i == j ? 1.0 : 0.0;
    }
  [[unroll]] for (uint block = 0u; block < 8u; ++block) {
    for (uint pair = 0u; pair < 8u; ++pair) {
      const uint first = pair * kWide;  // inside the block of 16
      const uint k = block * 16u + first, u = pair & 1u;
      if (tj >= first && tj < first + kWide)
        [[unroll]] for (uint a = block; a < 8u; ++a) columns[u][tj - first][ti + 16u * a] = r[a][block];
      if (ti >= first && ti < first + kWide)
        [[unroll]] for (uint b = 0u; b <= block; ++b) rows[u][ti - first][tj + 16u * b] = x[block][b];
      barrier();
      factor_block(u, k);
      vec2 li[8];
      [[unroll]] for (uint a = block; a < 8u; ++a) {
        const uint i = ti + 16u * a;
        li[a] = substitute(columns[u][0][i], columns[u][1][i]);
      }
      // Finished rows and columns take garbage that nobody reads.
      [[unroll]] for (uint b = block; b < 8u; ++b) {
        const uint j = tj + 16u * b;
        const vec2 lj = substitute(columns[u][0][j], columns[u][1][j]);
        [[unroll]] for (uint a = b; a < 8u; ++a) r[a][b] = subtract_dot(r[a][b], li[a], lj);
      }
      const vec2 below = ti >= first + kWide ? li[block] : vec2(0.0);
      [[unroll]] for (uint b = 0u; b <= block; ++b) {
        const uint j = tj + 16u * b;
        const vec2 z = substitute(rows[u][0][j], rows[u][1][j]);
        x[block][b] = subtract_dot(x[block][b], below, z);
        if (ti == first) x[block][b] = z.x;
        if (ti == first + 1u) x[block][b] = z.y;
        [[unroll]] for (uint a = block + 1u; a < 8u; ++a) x[a][b] = subtract_dot(x[a][b], li[a], z);
      }
    }
  }
  [[unroll]] for (uint a = 0u; a < 8u; ++a)
    [[unroll]] for (uint b = 0u; b < 8u; ++b) {
      const uint i = ti + 16u * a, j = tj + 16u * b;
      push.inverse.at[i * 128u + j] = b <= a && j <= i ? x[a][b] : 0.0;
    }
}
