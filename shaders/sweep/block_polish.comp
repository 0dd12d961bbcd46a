#version 450
// block_polish: one pass of coordinate descent over a block of at most 256 columns (docs/quality.md, "polish"): each code
// moves to the minimum of the damped loss with all others fixed; a tie keeps the code. Rungs stay.
// G = (Q - W) H_d / base is kept up to date inside the block, in shared memory only: a product with the changes brings
// the whole of G up to date afterwards.
// A workgroup owns 8 rows. In a group of 32 columns one thread a row walks the columns, then all update the block.
// Push: PolishPush. Constants: 0 = threads (256), 1 = four_bit, 2 = split operand. 15 KiB shared memory.
#extension GL_GOOGLE_include_directive : require
#include "types.glsl"
#include "layout.h"
#include "split.glsl"
#include "codes.glsl"
layout(local_size_x_id = 0) in;
layout(constant_id = 1) const uint kFourBit = 1u;
layout(constant_id = 2) const uint kSplit = 0u;
layout(push_constant, scalar) uniform Push { PolishPush push; };

#include "polish_block.glsl"

shared vec4 h_rows[32][8];

void walk_group(uint group, uint row, uint local_row) {
  const bool four_bit = kFourBit != 0u;
  const uint natural = (push.channel.at[group * 32u] & ~kDeadBit) / 32u;
  const uint rung = advance_words(push.rungs, uint64_t(row) * push.groups).at[natural];
  const float scale = rung == kNoRung ? 0.0 : push.table.at[row * 32u + rung];
  const float inverse_scale = scale > 0.0 ? 1.0 / scale : 0.0;
  Uvec4s place = Uvec4s(uint64_t(push.codes) + 16ul * (uint64_t(row) * push.groups + group));
  const uvec4 before = place.at[0];
  uvec4 after = uvec4(0u);
  float g[32];
  [[unroll]] for (uint k = 0u; k < 32u; ++k) g[k] = block_g[local_row][group * 32u + k];
  float gain = 0.0;
  [[unroll]] for (uint j = 0u; j < 32u; ++j) {
    const uint code = code_at(before, j);
    const float level = level_of(code, four_bit);
    const float h = h_rows[j][j / 4u][j % 4u];
    const float target = fma(-g[j], 1.0 / h, level * scale);
    const uint nearest = nearest_code(target, inverse_scale, four_bit);
    const float then = level_of(nearest, four_bit);
    const float d0 = fma(level, scale, -target), d1 = fma(then, scale, -target);
    const bool better = scale > 0.0 && d1 * d1 < d0 * d0;
    const float change = better ? (then - level) * scale : 0.0;
    after[j / 8u] |= (better ? nearest : code) << (j % 8u * 4u);
    gain = fma(change, fma(change, h, 2.0 * g[j]), gain);
    [[unroll]] for (uint q = j / 4u; q < 8u; ++q) {
      const vec4 r = h_rows[j][q];
      [[unroll]] for (uint e = 0u; e < 4u; ++e)
        if (q * 4u + e > j) g[q * 4u + e] = fma(change, r[e], g[q * 4u + e]);
    }
    changes[j][local_row / 4u][local_row % 4u] = change;
  }
  place.at[0] = after;
  push.loss.at[row] += gain;
}

void main() {
  const uint row0 = workgroup_number() * kRows;
  if (row0 >= push.rows) return;
  const uint thread = gl_LocalInvocationID.x;
  load_gradient(row0);
  for (uint group = 0u; group < push.columns / 32u; ++group) {
    for (uint i = thread; i < 1024u; i += gl_WorkGroupSize.x)
      h_rows[i / 32u][i % 32u / 4u][i % 4u] = push.band.at[(group * 32u + i / 32u) * kBlock + group * 32u + i % 32u];
    if (thread < 32u) {
      changes[thread][0] = vec4(0.0);
      changes[thread][1] = vec4(0.0);
    }
    barrier();
    // One thread in each subgroup of 32: the eight rows run on different schedulers.
    const uint local_row = thread / 32u;
    if (thread % 32u == 0u && row0 + local_row < push.rows) walk_group(group, row0 + local_row, local_row);
    barrier();
    pass_changes_on(group, row0);
    barrier();
  }
}
