#version 450
// ladder_refit: the second ladder of a row: from the least to the greatest rung that the first pass used (quality.md
// section 2). Rows without a used rung keep theirs.
// Push: RefitPush. Constants: 0 = threads, 1 = rule (kLadder...). One workgroup a row.
#extension GL_GOOGLE_include_directive : require
#include "types.glsl"
#include "layout.h"
#include "ladder.glsl"
layout(local_size_x_id = 0) in;
layout(constant_id = 1) const uint kRule = 0u;
layout(push_constant, scalar) uniform Push { RefitPush push; };

const uint kNone = 32u;
shared uint least, greatest;

void main() {
  const uint row = workgroup_number();
  if (row >= push.rows) return;
  const uint thread = gl_LocalInvocationID.x;
  if (thread == 0u) {
    least = kNone;
    greatest = 0u;
  }
  barrier();
  Uints rungs = advance_words(push.rungs, uint64_t(row) * push.groups);
  uint low = kNone, high = 0u;
  for (uint g = thread; g < push.groups; g += gl_WorkGroupSize.x) {
    const uint used = rungs.at[g];
    if (used == kNoRung) continue;
    low = min(low, used);
    high = max(high, used);
  }
  if (low != kNone) {
    atomicMin(least, low);
    atomicMax(greatest, high);
  }
  barrier();
  if (thread != 0u) return;
  const uint wide = push.wide.at[row];
  if (least == kNone) {
    push.params.at[row] = wide;
    return;
  }
  const uint first = kRule == kLadderQ4tp ? 0u : 1u;  // stored rung of the lowest scale
  const float lo = half_value(wide & 0xffffu), step = half_value(wide >> 16);
  precise float below = step * float(int(least) - int(first));
  precise float above = step * float(int(greatest) - int(first));
  precise float new_lo = lo + below, new_top = lo + above;
  push.params.at[row] = covering_params(new_lo, new_top, kRule == kLadderQ4tp ? 31.0 : 30.0);
}
