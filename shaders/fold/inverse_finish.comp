#version 450
// inverse_finish: 128 rows of X = L^-1 from T = sum of L X over the rows above: X = -Linv * T left of the diagonal block,
// Linv in it. Writes X in place and its transpose as operand lines (K = row of X).
// Works on the transpose: a workgroup owns 64 columns of X and all 128 rows, so reading in place is safe.
// Push: FinishPush. Constants: 0 = threads (256), 1 = split operand (0 or 1). Needs: 26 KiB shared memory.
#extension GL_GOOGLE_include_directive : require
#include "types.glsl"
#include "layout.h"
#include "split.glsl"
layout(local_size_x_id = 0) in;
layout(constant_id = 1) const uint kSplit = 0u;
layout(push_constant, scalar) uniform Push { FinishPush push; };
#include "small_tile.glsl"

void load_step(uint column0, uint step) {
  [[unroll]] for (uint i = 0u; i < kLoadsA; ++i) {
    const uint f = i * kThreads + gl_LocalInvocationID.x;
    const uint k = step * kDepth + f / 16u;
    next_a[i] = offset_floats(push.x, uint64_t(k) * push.stride + column0).at[f % 16u];
  }
  [[unroll]] for (uint i = 0u; i < kLoadsB; ++i) {
    const uint f = i * kThreads + gl_LocalInvocationID.x;
    next_b[i] = push.inverse.at[((f / 2u) % kTile) * 32u + step * 4u + (f / 2u) / kTile * 2u + f % 2u];
  }
}

void store_step(uint buffer_index) {
  [[unroll]] for (uint i = 0u; i < kLoadsA; ++i) {
    const uint f = i * kThreads + gl_LocalInvocationID.x;
    tile_a[(buffer_index * kDepth + f / 16u) * kPitchA + f % 16u] = next_a[i];
  }
  store_b_transposed(buffer_index);
}

void main() {
  const uint id = workgroup_number();
  if (id >= push.groups) return;
  const uint column0 = id * kRowsOut;
  const bool diagonal = column0 >= push.column;
  clear_sums();
  load_step(column0, 0u);
  store_step(0u);
  barrier();
  for (uint step0 = 0u; step0 < kTile / kDepth; step0 += 2u)
    [[unroll]] for (uint current = 0u; current < 2u; ++current) {
      load_step(column0, min(step0 + current + 1u, kTile / kDepth - 1u));
      multiply_step(current);
      store_step(current ^ 1u);
      barrier();
    }
  // sum[i][j]: column first_row() + i, rows first_column(j) + 0..3 of X.
  [[unroll]] for (uint j = 0u; j < 2u; ++j) {
    const uint column = column0 + first_row(), row = first_column(j);
    vec4 down[4];  // four rows of one column each
    [[unroll]] for (uint e = 0u; e < 4u; ++e) down[e] = -sum[e][j];
    if (diagonal) {
      [[unroll]] for (uint q = 0u; q < 4u; ++q) {
        const vec4 v = push.inverse.at[(row + q) * 32u + (column - push.column) / 4u];
        [[unroll]] for (uint e = 0u; e < 4u; ++e) down[e][q] = v[e];
      }
    }
    [[unroll]] for (uint q = 0u; q < 4u; ++q)
      offset_floats(push.x, uint64_t(row + q) * push.stride + column).at[0] =
          vec4(down[0][q], down[1][q], down[2][q], down[3][q]);
    [[unroll]] for (uint e = 0u; e < 4u; ++e) {
      Uvec4s line = offset_lines(push.out_lines, uint64_t(row / 32u) * push.out_rows + column + e);
      store_line(line, row % 32u / 4u, down[e], kSplit != 0u, push.scale);
    }
  }
}
