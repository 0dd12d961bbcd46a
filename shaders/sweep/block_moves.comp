#version 450
// block_moves: moves of whole groups over a block of at most 256 columns (docs/quality.md, "group moves"): a group is rounded
// anew, with the best of the 32 rungs, towards the minimum of the damped loss with all other columns fixed; the row keeps
// what it has where that loses less. G = (Q - W) H_d / base is kept up to date inside the block, in shared memory only, as in
// block_polish.
// A workgroup owns 8 rows, 32 threads a row: a rung each while rounding, a column each otherwise.
// Push: PolishPush. Constants: 0 = threads (256), 1 = four_bit, 2 = split operand. 17 KiB shared memory.
#extension GL_GOOGLE_include_directive : require
#include "types.glsl"
#include "layout.h"
#include "split.glsl"
#include "codes.glsl"
layout(local_size_x_id = 0) in;
layout(constant_id = 1) const uint kFourBit = 1u;
layout(constant_id = 2) const uint kSplit = 0u;
layout(push_constant, scalar) uniform Push { PolishPush push; };
#include "round_group.glsl"
#include "polish_block.glsl"
const float kInfinity = 3.4028234e38;
const float kLargestHalf = 65504.0;

shared float lanes[kRows][32];     // minimum, then losses by rung, then changes by column
shared float gains[kRows][32];
shared uvec4 new_codes[kRows];

void load_factor(uint group) {
  Floats block = advance(push.blocks, uint64_t(group) * kMoveFloats);
  for (uint i = gl_LocalInvocationID.x; i < 1024u; i += gl_WorkGroupSize.x)
    ratio[i / 32u][i % 32u / 4u][i % 4u] = block.at[1024u + i];
  if (gl_LocalInvocationID.x < 32u) inverse_u[gl_LocalInvocationID.x] = block.at[2048u + gl_LocalInvocationID.x];
}

// q - G H_gg^-1 of the lane's column.
float minimum_of(uint group, uint row, uint lane, float value) {
  Floats inverse = advance(push.blocks, uint64_t(group) * kMoveFloats);
  float step = 0.0;
  for (uint j = 0u; j < 32u; ++j) step = fma(block_g[row][group * 32u + j], inverse.at[j * 32u + lane], step);
  return value - step;
}

// Rounds the row's minimum at the lane's rung; the best rung, kNoRung where there is none. Leaves its codes in new_codes.
uint best_rung(uint row, uint local_row, uint lane) {
  float absmax = 0.0;
  [[unroll]] for (uint j = 0u; j < 32u; ++j) {
    x[j] = lanes[local_row][j];
    absmax = max(absmax, abs(x[j]));
  }
  barrier();
  const float scale = push.table.at[row * 32u + lane];
  const bool candidate = absmax > 0.0 && lane >= (four_bit() ? 0u : 1u) && scale > 0.0;
  const float loss = round_group(candidate ? scale : 0.0);
  lanes[local_row][lane] = candidate && loss < kInfinity ? loss : kInfinity;
  barrier();
  uint best = kNoRung;
  float least = kInfinity;
  [[unroll]] for (uint c = 0u; c < 32u; ++c) {
    const float other = lanes[local_row][c];
    if (other < least) {
      least = other;
      best = c;
    }
  }
  if (lane == best) new_codes[local_row] = codes;
  barrier();
  return best;
}

// The change of the damped loss / base if the row's columns change by `lanes`, summed in the same order by every lane.
float gain_of(uint group, uint local_row, uint lane) {
  float product = 2.0 * block_g[local_row][group * 32u + lane];
  for (uint k = 0u; k < 32u; ++k)
    product = fma(push.band.at[(group * 32u + k) * kBlock + group * 32u + lane], lanes[local_row][k], product);
  gains[local_row][lane] = product * lanes[local_row][lane];
  barrier();
  float gain = 0.0;
  for (uint k = 0u; k < 32u; ++k) gain += gains[local_row][k];
  return gain;
}

void move_group(uint group, uint row, uint local_row, uint lane, bool valid) {
  const uint natural = (push.channel.at[group * 32u] & ~kDeadBit) / 32u;
  const uint rung = advance_words(push.rungs, uint64_t(row) * push.groups).at[natural];
  Uvec4s place = Uvec4s(uint64_t(push.codes) + 16ul * (uint64_t(row) * push.groups + group));
  const float scale = rung == kNoRung ? 0.0 : push.table.at[row * 32u + rung];
  const float value = level_of(code_at(place.at[0], lane), four_bit()) * scale;
  lanes[local_row][lane] = minimum_of(group, local_row, lane, value);
  barrier();
  const uint best = best_rung(row, local_row, lane);
  const uvec4 moved = new_codes[local_row];
  float change = 0.0;
  if (best != kNoRung) change = level_of(code_at(moved, lane), four_bit()) * push.table.at[row * 32u + best] - value;
  lanes[local_row][lane] = change;
  barrier();
  const float gain = gain_of(group, local_row, lane);
  bool fits = true;
  for (uint k = 0u; k < 32u; ++k) fits = fits && abs(lanes[local_row][k]) * push.scale <= kLargestHalf;
  const bool better = valid && best != kNoRung && gain < 0.0 && inverse_u[0] > 0.0 && (kSplit == 0u || fits);
  changes[lane][local_row / 4u][local_row % 4u] = better ? change : 0.0;
  if (lane != 0u || !better) return;
  advance_words(push.rungs, uint64_t(row) * push.groups).at[natural] = best;
  place.at[0] = moved;
  push.loss.at[row] += gain;
}

void main() {
  const uint row0 = workgroup_number() * kRows;
  if (row0 >= push.rows) return;
  const uint thread = gl_LocalInvocationID.x;
  const uint local_row = thread / 32u, lane = thread % 32u;
  const bool valid = row0 + local_row < push.rows;
  const uint row = min(row0 + local_row, push.rows - 1u);
  load_gradient(row0);
  for (uint group = 0u; group < push.columns / 32u; ++group) {
    load_factor(group);
    barrier();
    move_group(group, row, local_row, lane, valid);
    barrier();
    pass_changes_on(group, row0);
    barrier();
  }
}
