#version 450
// codes_pack: the payload of one tensor, as in the file: codes [rows][groups] in natural channel order (32 nibbles or 32
// 2-bit codes a group, low bits first), params [rows], 5-bit rungs packed by row, each row from a whole byte on.
// kNoRung is stored as 0; bytes behind the end up to a whole word are 0.
// Adds the number of all-zero groups to zero_groups[0] (q4tp: all codes 8; q2tp: rung 0).
// Push: PackPush. Constants: 0 = threads, 1 = bits (4 or 2). One thread a group, then one a row, then one a rung word.
#extension GL_GOOGLE_include_directive : require
#include "types.glsl"
#include "layout.h"
layout(local_size_x_id = 0) in;
layout(constant_id = 1) const uint kBits = 4u;
layout(push_constant, scalar) uniform Push { PackPush push; };

const uint kPerWord = 32u / kBits;
const uint kZeroWord = 0x88888888u;  // eight codes of q4tp that mean zero

uint stored_rung(uint row, uint group) {
  const uint rung = advance_words(push.rungs, uint64_t(row) * push.groups).at[group];
  return rung == kNoRung ? 0u : rung;
}

void pack_group(uint index) {
  const uint row = index / push.groups, group = index % push.groups;
  Uints codes = Uints(uint64_t(push.codes) + 16ul * (uint64_t(row) * push.groups));
  Uints position = advance_words(push.position, 32u * group);
  Uints words = advance_words(push.payload, uint64_t(index) * kBits);
  bool zero = kBits == 4u || stored_rung(row, group) == 0u;
  [[unroll]] for (uint w = 0u; w < kBits; ++w) {
    uint word = 0u;
    [[unroll]] for (uint i = 0u; i < kPerWord; ++i) {
      const uint p = position.at[w * kPerWord + i];
      const uint code = (codes.at[p / 8u] >> (4u * (p % 8u))) & 0xfu;
      word |= code << (kBits * i);
    }
    words.at[w] = word;
    if (kBits == 4u) zero = zero && word == kZeroWord;
  }
  if (zero) atomicAdd(push.zero_groups.at[0], 1u);
}

// Byte `index` of the rung plane.
uint rung_byte(uint index) {
  const uint row = index / push.rung_row_bytes, first_bit = 8u * (index % push.rung_row_bytes);
  if (row >= push.rows) return 0u;
  uint bits = 0u;
  const uint last = min((first_bit + 7u) / 5u, push.groups - 1u);
  for (uint g = first_bit / 5u; g <= last; ++g) {
    const uint rung = stored_rung(row, g) & 31u;
    bits |= 5u * g >= first_bit ? rung << (5u * g - first_bit) : rung >> (first_bit - 5u * g);
  }
  return bits & 0xffu;
}

void main() {
  const uint64_t id = uint64_t(workgroup_number()) * gl_WorkGroupSize.x + gl_LocalInvocationID.x;
  const uint64_t group_count = uint64_t(push.rows) * push.groups;
  if (id < group_count) {
    pack_group(uint(id));
    return;
  }
  Uints params = advance_words(push.payload, group_count * kBits);
  const uint64_t row = id - group_count;
  if (row < push.rows) {
    params.at[uint(row)] = push.params.at[uint(row)];
    return;
  }
  const uint64_t word = row - push.rows;
  if (word >= push.rung_words) return;
  uint packed = 0u;
  for (uint b = 0u; b < 4u; ++b) packed |= rung_byte(4u * uint(word) + b) << (8u * b);
  advance_words(params, push.rows).at[uint(word)] = packed;
}
