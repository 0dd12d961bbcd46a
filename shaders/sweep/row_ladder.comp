#version 450
// row_ladder: where the 32 scales of a row lie, by the converter's rules (gptq.md 1.1, 1.2; kLadder... in layout.h), and
// where asked for the rung of each group that rounding would use (0 for a group of zeros).
// Weights count as zero where live is 0. Errors are f32 sums in a fixed order, but not in the host's: near ties between
// scales or between tops may fall otherwise.
// Push: LadderPush. Constants: 0 = threads (at most 256), 1 = rule, 2 = 1: widened for the first pass of the fit (0.6
// below, 0.1 above; a row of zeros is not), 3 = 1: write rungs. One workgroup a row; a thread holds a group in registers.
#extension GL_GOOGLE_include_directive : require
#include "types.glsl"
#include "layout.h"
#include "ladder.glsl"
layout(local_size_x_id = 0) in;
layout(constant_id = 1) const uint kRule = 0u;
layout(constant_id = 2) const uint kWiden = 0u;
layout(constant_id = 3) const uint kWriteRungs = 0u;
layout(push_constant, scalar) uniform Push { LadderPush push; };

const uint kMaxThreads = 256u;
const vec4 kTopShares = vec4(1.0, 0.9, 0.8, 0.7);
const float kAbove = kRule == kLadderQ4tp ? 31.0 : 30.0;  // rungs above the lowest
const uint kLowest = kRule == kLadderQ4tp ? 0u : 1u;      // stored rung of the lowest scale
const float kFullScale = kRule == kLadderQ4tp ? 7.0 : 1.5;
const float kWidenBelow = 0.6, kWidenAbove = 0.1;
const float kHuge = 3.0e38;
// Walks over the row: the range of its scales, the error on each of four ladders, the rungs on the best one. They share
// one loop body, as the unrolled error is long to compile.
const uint kRange = 0u, kTops = 1u, kRungs = 2u;
const uint kMultiples = 4u;  // the table of multiples of the largest magnitude, behind those of the tops

shared uint least_scale, greatest_scale;  // f16 bits over the live groups
shared uint top_params[4];
shared float tables[5][32];
shared vec4 sums[kMaxThreads];
shared uint best_top;

vec4 w[8], h[8];  // the group at hand
float largest;
vec4 row_error = vec4(0.0);  // this thread's share, by top

void load_group(uint row, uint group) {
  Vec4s weights = offset_floats(push.weights, (uint64_t(row) * push.groups + group) * 32ul);
  vec4 most = vec4(0.0);
  [[unroll]] for (uint i = 0u; i < 8u; ++i) {
    w[i] = weights.at[i] * push.live.at[group * 8u + i];
    most = max(most, abs(w[i]));
    if (kRule == kLadderPlaced) h[i] = push.hw.at[group * 8u + i];
  }
  largest = max(max(most.x, most.y), max(most.z, most.w));
}

// Error of the group at scale s. The four levels of q2tp are symmetric, so |w - level| = ||w| - s| - s/2 in magnitude.
float group_error(float s) {
  vec4 sum = vec4(0.0);
  if (kRule == kLadderQ4tp) {
    const float inverse = 1.0 / s;
    [[unroll]] for (uint i = 0u; i < 8u; ++i) {
      const vec4 d = fma(-clamp(roundEven(w[i] * inverse), -8.0, 7.0), vec4(s), w[i]);
      sum = fma(d, d, sum);
    }
  } else {
    const float half_s = 0.5 * s;
    [[unroll]] for (uint i = 0u; i < 8u; ++i) {
      const vec4 d = abs(abs(w[i]) - s) - half_s;
      sum = fma(kRule == kLadderPlaced ? h[i] * d : d, d, sum);
    }
  }
  return (sum.x + sum.y) + (sum.z + sum.w);
}

struct Choice {
  uint rung;
  float error;
};

// Best entry of a table for the group at hand, the first of equals; scales are unit * entry.
Choice choose(uint table, float unit, uint up) {
  uint first = 1u, last = 31u;
  Choice best = Choice(table == kMultiples ? 0u : 1u, uintBitsToFloat(kInfiniteBits));
  if (kRule != kLadderPlaced) {  // a window around the nominal rung
    const uint params = top_params[table];
    precise float distance = scale_log2(scale_half(quotient(largest, kFullScale))) - half_value(params & 0xffffu);
    const float above = clamp(roundEven(quotient(distance, half_value(params >> 16))), 0.0, kAbove);
    best.rung = kLowest + uint(above);
    first = max(best.rung, kLowest + 2u) - 2u;
    last = min(best.rung + up, 31u);
  }
  for (uint c = first; c <= last; ++c) {
    precise float s = unit * tables[table][c];
    const float error = group_error(s);
    if (s > 0.0 && s < kHuge && error < best.error) best = Choice(c, error);
  }
  return best;
}

void note_scale(float scale) {
  const uint bits = scale_half(scale);
  atomicMin(least_scale, bits);
  atomicMax(greatest_scale, bits);
}

void visit(uint walk, uint row, uint group) {
  load_group(row, group);
  const bool writes = kWriteRungs != 0u && (walk == kRungs || (walk == kTops && kRule == kLadderPlaced));
  Uints rung = advance_words(push.rungs, uint64_t(row) * push.groups + group);
  const float base = quotient(largest, kFullScale);
  if (largest == 0.0) {
    if (writes) rung.at[0] = 0u;
    return;
  }
  if (walk == kRange && kRule != kLadderPlaced) {
    note_scale(base);
    return;
  }
  const uint first = walk == kRange ? kMultiples : walk == kTops ? 0u : best_top;
  const uint end = walk == kTops ? 4u : first + 1u;
  uint packed = 0u;  // of all tops, until it is known which counts
  for (uint table = first; table < end; ++table) {
    const Choice choice = choose(table, walk == kRange ? base : 1.0, walk == kTops ? 2u : 1u);
    if (walk == kRange) {
      precise float scale = base * tables[kMultiples][choice.rung];
      note_scale(scale);
    } else {
      row_error += mix(vec4(0.0), vec4(choice.error), equal(uvec4(0u, 1u, 2u, 3u), uvec4(table)));
      packed |= choice.rung << (walk == kTops ? 8u * table : 0u);
    }
  }
  if (writes) rung.at[0] = packed;
}

void place_top(uint top) {
  const bool any = least_scale <= greatest_scale;
  const float lo = scale_log2(any ? least_scale : kTinyHalf), hi = scale_log2(any ? greatest_scale : kTinyHalf);
  const float low = half_value(half_of(lo));
  precise float share = hi - low;
  share = share * kTopShares[top];
  precise float reach = low + share;
  if (kRule == kLadderQ4tp || (kRule == kLadderCortiq && !(hi > low))) reach = hi;
  const uint params = covering_params(lo, reach, kAbove);
  top_params[top] = params;
  const vec2 factors = chain_factors(params);
  precise float t = factors.x;
  for (uint c = kLowest; c < 32u; ++c) {
    tables[top][c] = t;
    t = t * factors.y;
  }
}

// Adds the errors of the threads in a tree that depends on their number alone.
void choose_top() {
  const uint thread = gl_LocalInvocationID.x;
  sums[thread] = row_error;
  barrier();
  for (uint stride = kMaxThreads / 2u; stride > 0u; stride /= 2u) {
    if (thread < stride && thread + stride < gl_WorkGroupSize.x) sums[thread] += sums[thread + stride];
    barrier();
  }
  if (thread == 0u) {
    float least = sums[0].x;
    [[unroll]] for (uint top = 1u; top < 4u; ++top)
      if (sums[0][top] < least) {
        least = sums[0][top];
        best_top = top;
      }
  }
}

uint widened(uint params) {
  if (least_scale > greatest_scale) return params;
  precise float low, top;
  if (kRule == kLadderQ4tp) {
    low = scale_log2(least_scale);
    top = scale_log2(greatest_scale);
  } else {
    low = half_value(params & 0xffffu);
    precise float range = kAbove * half_value(params >> 16);
    top = low + range;
  }
  low = low - kWidenBelow;
  top = top + kWidenAbove;
  return covering_params(low, top, kAbove);
}

void begin() {
  const uint thread = gl_LocalInvocationID.x;
  // The nearest f32 of (300 + 25 (c - 1)) / 1000; entry 0 stands for the base itself.
  for (uint c = thread; c < 32u; c += gl_WorkGroupSize.x)
    tables[kMultiples][c] = c == 0u ? 1.0 : quotient(float(275u + 25u * c), 1000.0);
  if (thread == 0u) {
    least_scale = kInfiniteHalf + 1u;
    greatest_scale = 0u;
    best_top = 0u;
  }
  barrier();
}

void main() {
  const uint row = workgroup_number();
  if (row >= push.rows) return;
  const uint thread = gl_LocalInvocationID.x, threads = gl_WorkGroupSize.x;
  const bool tops = kRule != kLadderQ4tp, rungs = kWriteRungs != 0u && kRule != kLadderPlaced;
  begin();
  for (uint walk = kRange; walk <= (rungs ? kRungs : kTops); ++walk) {
    if (walk == kTops && !tops) continue;
    for (uint g = thread; g < push.groups; g += threads) visit(walk, row, g);
    barrier();
    if (walk == kRange && thread < (tops ? 4u : 1u)) place_top(thread);
    if (walk == kTops) choose_top();
    barrier();
  }
  if (kWriteRungs != 0u && kRule == kLadderPlaced) {
    Uints packed = advance_words(push.rungs, uint64_t(row) * push.groups);
    for (uint g = thread; g < push.groups; g += threads) packed.at[g] = (packed.at[g] >> (8u * best_top)) & 0xffu;
  }
  if (thread == 0u) {
    const uint params = top_params[best_top];
    push.params.at[row] = kWiden != 0u ? widened(params) : params;
  }
}
