#version 450
// row_sums: four sums of a row, for the error, the energy and the debias (gptq.md section 7.2):
//   0: sum over live channels of (w - q)^2        1: sum over dead channels of q^2 * D'^2
//   2: num = <Q,W>_H / base                       3: den = <W,W>_H / base
// from the product Y = W H_d / base: <A,W>_H = sum a (y - lambda w) over live channels. Where Y is the product of half the
// work (Engine::multiply_half), sum 2 means nothing.
// A fixed tree of sums: the same bits in every run. Push: RowSumsPush.
// Constants: 0 = threads (256), 1 = four_bit. One workgroup per row.
#extension GL_GOOGLE_include_directive : require
#include "types.glsl"
#include "layout.h"
#include "codes.glsl"
layout(local_size_x_id = 0) in;
layout(constant_id = 1) const uint kFourBit = 1u;
layout(push_constant, scalar) uniform Push { RowSumsPush push; };

const uint kDeadBit = 0x80000000u;
shared vec4 partial[256];

void main() {
  const uint row = workgroup_number();
  if (row >= push.rows) return;
  const uint thread = gl_LocalInvocationID.x;
  const uint groups = push.n / 32u;
  Floats weights = advance(push.weights, uint64_t(row) * push.n);
  Uints rungs = advance_words(push.rungs, uint64_t(row) * groups);
  Uints codes = advance_words(Uints(uint64_t(push.codes)), uint64_t(row) * groups * 4ul);
  vec4 sum = vec4(0.0);
  for (uint p = thread; p < push.n; p += gl_WorkGroupSize.x) {
    const uint marked = push.channel.at[p];
    const uint channel = marked & ~kDeadBit;
    const uint rung = rungs.at[channel / 32u];
    const uint code = codes.at[p / 8u] >> (p % 8u * 4u) & 15u;
    const float q = rung == kNoRung ? 0.0 : level_of(code, kFourBit != 0u) * push.table.at[row * 32u + rung];
    if (marked != channel) {
      const float scaled = q / push.inverse.at[p];
      sum.y = fma(scaled, scaled, sum.y);
      continue;
    }
    const float w = weights.at[channel];
    sum.x = fma(w - q, w - q, sum.x);
    const float y = fma(-push.lambda, w, advance(push.product, uint64_t(row) * push.size).at[p]);
    sum.z = fma(q, y, sum.z);
    sum.w = fma(w, y, sum.w);
  }
  partial[thread] = sum;
  barrier();
  for (uint width = gl_WorkGroupSize.x / 2u; width > 0u; width /= 2u) {
    if (thread < width) partial[thread] += partial[thread + width];
    barrier();
  }
  if (thread < 4u) push.sums.at[row * 4u + thread] = partial[0][thread];
}
