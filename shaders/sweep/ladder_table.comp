#version 450
// ladder_table: the 32 scales of each row: t[0] = exp2(lo), t[c] = t[c-1] * exp2(step); q2tp: 0, t[0], ..., t[30].
// Bits of the host's table. Scales beyond f32 are infinite.
// Push: TablePush. Constants: 0 = threads, 1 = rule (kLadder...). One thread a row.
#extension GL_GOOGLE_include_directive : require
#include "types.glsl"
#include "layout.h"
#include "ladder.glsl"
layout(local_size_x_id = 0) in;
layout(constant_id = 1) const uint kRule = 0u;
layout(push_constant, scalar) uniform Push { TablePush push; };

void main() {
  const uint row = workgroup_number() * gl_WorkGroupSize.x + gl_LocalInvocationID.x;
  if (row >= push.rows) return;
  const vec2 factors = chain_factors(push.params.at[row]);
  Floats table = advance(push.table, 32ul * row);
  const uint first = kRule == kLadderQ4tp ? 0u : 1u;
  if (first == 1u) table.at[0] = 0.0;
  precise float t = factors.x;
  for (uint c = first; c < 32u; ++c) {
    table.at[c] = t;
    t = t * factors.y;
  }
}
