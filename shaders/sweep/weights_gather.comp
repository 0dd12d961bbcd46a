#version 450
// weights_gather: weights in elimination order, dead channels and the padding as zeros.
// Push: GatherPush. Constants: 0 = threads (256), 1 = what (0: W to the working matrix; 1: W, 2: Q - W to operand lines),
// 2 = split operand, 3 = four_bit. One workgroup per (row, 1024 positions).
#extension GL_GOOGLE_include_directive : require
#include "types.glsl"
#include "layout.h"
#include "split.glsl"
#include "codes.glsl"
layout(local_size_x_id = 0) in;
layout(constant_id = 1) const uint kWhat = 0u;
layout(constant_id = 2) const uint kSplit = 0u;
layout(constant_id = 3) const uint kFourBit = 1u;
layout(push_constant, scalar) uniform Push { GatherPush push; };

const uint kDeadBit = 0x80000000u;

float quantized(uint row, uint position, uint channel) {
  const uint groups = push.n / 32u;
  const uint rung = advance_words(push.rungs, uint64_t(row) * groups).at[channel / 32u];
  if (rung == kNoRung) return 0.0;
  const uvec4 codes = Uvec4s(uint64_t(push.codes) + 16ul * (uint64_t(row) * groups + position / 32u)).at[0];
  return level_of(code_at(codes, position % 32u), kFourBit != 0u) * push.table.at[row * 32u + rung];
}

float value(uint row, uint position) {
  if (row >= push.rows || position >= push.n) return 0.0;
  const uint marked = push.channel.at[position];
  const uint channel = marked & ~kDeadBit;
  float w = 0.0;
  if (marked == channel) w = advance(push.weights, uint64_t(row) * push.n).at[channel];
  return kWhat == 2u ? quantized(row, position, channel) - w : w;
}

void main() {
  const uint parts = (push.size + 1023u) / 1024u;
  const uint id = workgroup_number();
  const uint row = id / parts;
  if (row >= push.padded_rows) return;
  const uint first = id % parts * 1024u + gl_LocalInvocationID.x * 4u;
  if (first >= push.size) return;
  const vec4 v = vec4(value(row, first), value(row, first + 1u), value(row, first + 2u), value(row, first + 3u));
  if (kWhat == 0u) {
    Vec4s(uint64_t(push.out_matrix) + 4ul * (uint64_t(row) * push.size + first)).at[0] = v;
  } else {
    Uvec4s line = offset_lines(push.out_lines, uint64_t(first / 32u) * push.padded_rows + row);
    store_line(line, first % 32u / 4u, v, kSplit != 0u, push.scale);
  }
}
