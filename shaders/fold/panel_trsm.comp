#version 450
// panel_trsm: 128 columns of L below a diagonal block: L = C * Linv^T, written as operand lines.
// C [rows,128] f32 (left as it is); inverse [128,128]. A workgroup does 64 rows.
// Push: TrsmPush. Constants: 0 = threads (256), 1 = split operand (0 or 1). Needs: 26 KiB shared memory.
#extension GL_GOOGLE_include_directive : require
#include "types.glsl"
#include "layout.h"
#include "split.glsl"
layout(local_size_x_id = 0) in;
layout(constant_id = 1) const uint kSplit = 0u;
layout(push_constant, scalar) uniform Push { TrsmPush push; };
#include "small_tile.glsl"

void load_step(uint row0, uint step) {
  [[unroll]] for (uint i = 0u; i < kLoadsA; ++i) {
    const uint f = i * kThreads + gl_LocalInvocationID.x;
    const uint row = row0 + (f / 2u) % kRowsOut, k = (f / 2u) / kRowsOut * 2u + f % 2u;
    next_a[i] = offset_floats(push.a, uint64_t(row) * push.stride).at[step * 4u + k];
  }
  [[unroll]] for (uint i = 0u; i < kLoadsB; ++i) {
    const uint f = i * kThreads + gl_LocalInvocationID.x;
    next_b[i] = push.inverse.at[((f / 2u) % kTile) * 32u + step * 4u + (f / 2u) / kTile * 2u + f % 2u];
  }
}

void store_step(uint buffer_index) {
  store_a_transposed(buffer_index);
  store_b_transposed(buffer_index);
}

void main() {
  const uint id = workgroup_number();
  if (id >= push.groups) return;
  const uint row0 = id * kRowsOut;
  clear_sums();
  load_step(row0, 0u);
  store_step(0u);
  barrier();
  for (uint step0 = 0u; step0 < kTile / kDepth; step0 += 2u)
    [[unroll]] for (uint current = 0u; current < 2u; ++current) {
      load_step(row0, min(step0 + current + 1u, kTile / kDepth - 1u));
      multiply_step(current);
      store_step(current ^ 1u);
      barrier();
    }
  [[unroll]] for (uint i = 0u; i < 4u; ++i) {
    const uint row = row0 + first_row() + i;
    [[unroll]] for (uint j = 0u; j < 2u; ++j) {
      const uint column = first_column(j);
      Uvec4s line = offset_lines(push.out_lines, uint64_t(column / 32u) * push.out_rows + row);
      store_line(line, column % 32u / 4u, sum[i][j], kSplit != 0u, push.scale);
    }
  }
}
