#version 450
// ladder_debias: moves the ladder of a row by -log2(clamp(num/den, 0.8, 1.25)) (gptq.md 7.1). Rows where den is not positive,
// or one of both is not finite, keep theirs.
// Push: DebiasPush. Constants: 0 = threads. One thread a row.
#extension GL_GOOGLE_include_directive : require
#include "types.glsl"
#include "layout.h"
#include "ladder.glsl"
layout(local_size_x_id = 0) in;
layout(push_constant, scalar) uniform Push { DebiasPush push; };

void main() {
  const uint row = workgroup_number() * gl_WorkGroupSize.x + gl_LocalInvocationID.x;
  if (row >= push.rows) return;
  const uint before = push.before.at[row];
  const float num = push.numerator.at[row], den = push.denominator.at[row];
  uint lo = before & 0xffffu;
  if (is_finite(num) && is_finite(den) && den > 0.0) {
    // Compared before dividing, as the quotient of f32 numbers may overflow.
    float ratio = 1.25;
    if (num <= 0.8 * den) ratio = 0.8;
    else if (num < 1.25 * den) ratio = clamp(quotient(num, den), 0.8, 1.25);
    const vec2 shift = log2_pair(ratio);
    const vec2 moved = add_pairs(vec2(half_value(lo), 0.0), -shift);
    lo = half_of(moved.x);
  }
  push.params.at[row] = lo | (before & 0xffff0000u);
}
