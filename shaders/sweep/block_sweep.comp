#version 450
// block_sweep: the GPTQ sweep over one block of at most 256 columns (gptq.md sections 4 to 6; docs/quality.md section 1).
// A workgroup owns 8 rows; 32 threads a row try the 32 rungs of the ladder at once, all of them, one each.
//   kSearch 0: H_ii-weighted error, window nominal-2 … nominal+1;  1: the same, all rungs;
//           2: exact loss of the group with its feedback, all rungs;  3: rungs fixed beforehand, per natural group.
// Ties go to the lower rung. Then the rest of the block is updated; columns behind the block are left to a product.
// Push: SweepPush. Constants: 0 = threads (256), 1 = four_bit, 2 = search, 3 = split operand. 16 KiB shared memory.
#extension GL_GOOGLE_include_directive : require
#include "types.glsl"
#include "layout.h"
#include "split.glsl"
#include "codes.glsl"
layout(local_size_x_id = 0) in;
layout(constant_id = 1) const uint kFourBit = 1u;
layout(constant_id = 2) const uint kSearch = 2u;
layout(constant_id = 3) const uint kSplit = 0u;
layout(push_constant, scalar) uniform Push { SweepPush push; };

const uint kRows = 8u;
const uint kBlock = 256u;
const uint kDeadBit = 0x80000000u;
const float kInfinity = 3.4028234e38;  // no loss comes near it
const float kLargestHalf = 65504.0;

shared vec4 block_w[kRows][kBlock / 4u];
shared float error_weight[32];    // H_ii, for searches 0 and 1
shared vec4 errors[32][kRows / 4u];  // e' of the group, [column][row]
shared float losses[kRows][32];
shared float row_loss[kRows];

#include "round_group.glsl"

void load_group(uint group, uint row) {
  const uint thread = gl_LocalInvocationID.x;
  const uint first = group * 32u;
  for (uint i = thread; i < 1024u; i += gl_WorkGroupSize.x) {
    const uint j = i / 32u, k = i % 32u;
    const float diagonal = push.band.at[(first + j) * (kBlock + 1u)];
    const float u = push.band.at[(first + j) * kBlock + first + k];
    ratio[j][k / 4u][k % 4u] = k > j ? u / diagonal : 0.0;
    if (k == 0u) inverse_u[j] = 1.0 / diagonal;
  }
  if (kSearch < 2u && thread < 32u) error_weight[thread] = push.diagonal.at[first + thread];
  [[unroll]] for (uint q = 0u; q < 8u; ++q) {
    const vec4 v = block_w[row][group * 8u + q];
    [[unroll]] for (uint e = 0u; e < 4u; ++e) x[q * 4u + e] = v[e];
  }
}

// The same with a scale of its own for every column.
float round_fixed(uint row, uint first) {
  float loss = 0.0;
  codes = uvec4(0u);
  [[unroll]] for (uint j = 0u; j < 32u; ++j) {
    const uint group = (push.channel.at[first + j] & ~kDeadBit) / 32u;
    const uint rung = advance_words(push.rungs, uint64_t(row) * push.groups).at[group];
    const float scale = rung == kNoRung ? 0.0 : push.table.at[row * 32u + rung];
    const float w = x[j];
    uint code = four_bit() ? 8u : 0u;
    float d = w;
    if (scale > 0.0) {
      code = nearest_code(w, 1.0 / scale, four_bit());
      d = fma(-level_of(code, four_bit()), scale, w);
    }
    codes[j / 8u] |= code << (j % 8u * 4u);
    const float e = d * inverse_u[j];
    loss = fma(e, e, loss);
    feed_back(j, d);
  }
  return loss;
}

// sum of H_ii (w - q)^2 without feedback; x stays.
float plain_error(float scale) {
  const float inverse_scale = 1.0 / scale;
  float error = 0.0;
  [[unroll]] for (uint j = 0u; j < 32u; ++j) {
    const float w = x[j];
    const float d = fma(-level_of(nearest_code(w, inverse_scale, four_bit()), four_bit()), scale, w);
    error = fma(error_weight[j] * d, d, error);
  }
  return error;
}

uint nominal_rung(float absmax, uint row) {
  const uint bottom = four_bit() ? 0u : 1u;
  const vec2 params = unpackHalf2x16(push.params.at[row]);
  if (!(params.y > 0.0)) return bottom;
  const float place = (log2(absmax / (four_bit() ? 7.0 : 1.5)) - params.x) / params.y;
  // Half away from zero at four bits, half to even at two (gptq.md sections 4 and 6).
  const float rounded = four_bit() ? floor(place + 0.5) : roundEven(place);
  return bottom + uint(clamp(rounded, 0.0, float(31u - bottom)));
}

void write_row(uint row, uint local_row, uint group, uint rung, float loss) {
  const uint first = group * 32u;
  if (kSearch != 3u) {
    const uint natural = (push.channel.at[first] & ~kDeadBit) / 32u;
    advance_words(push.rungs, uint64_t(row) * push.groups).at[natural] = rung;
  }
  Uvec4s(uint64_t(push.codes) + 16ul * (uint64_t(row) * push.groups + group)).at[0] = codes;
  row_loss[local_row] += loss;
  bool bad = false;
  [[unroll]] for (uint j = 0u; j < 32u; ++j) {
    const float e = x[j] * inverse_u[j];
    bad = bad || !is_finite(e) || (kSplit != 0u && abs(e) * push.scale > kLargestHalf);
    errors[j][local_row / 4u][local_row % 4u] = e;
  }
  if (bad) atomicAdd(push.status.at[0], 1u);
}

// Chooses the rung of the group and rounds it.
void solve_group(uint group, uint row, uint local_row, uint lane, bool valid) {
  float absmax = 0.0;
  [[unroll]] for (uint j = 0u; j < 32u; ++j) absmax = max(absmax, abs(x[j]));
  const uint bottom = four_bit() ? 0u : 1u;
  const bool live = absmax > 0.0;
  const float scale = push.table.at[row * 32u + lane];
  const uint nominal = live ? nominal_rung(absmax, row) : bottom;
  bool candidate = live && lane >= bottom && scale > 0.0;
  if (kSearch == 0u)
    candidate = candidate && int(lane) >= int(nominal) - 2 && lane <= nominal + 1u;
  float loss = kInfinity;
  if (kSearch == 2u) {
    loss = round_group(live ? scale : 0.0);
  } else if (candidate) {
    loss = plain_error(scale);
  }
  const float simulated = loss;
  if (!candidate || !(loss < kInfinity)) loss = kInfinity;
  losses[local_row][lane] = loss;
  barrier();
  uint best = nominal;
  float least = kInfinity;
  [[unroll]] for (uint c = 0u; c < 32u; ++c) {
    const float other = losses[local_row][c];
    if (other < least) {
      least = other;
      best = c;
    }
  }
  if (kSearch == 2u) {
    const bool writes = live ? lane == best : lane == 0u;
    if (writes && valid) write_row(row, local_row, group, live ? best : kNoRung, simulated);
  } else {
    const float chosen = live ? push.table.at[row * 32u + best] : 0.0;
    const float final_loss = round_group(chosen);
    if (lane == 0u && valid) write_row(row, local_row, group, live ? best : kNoRung, final_loss);
  }
}

void update_rest(uint group) {
  const uint column = gl_LocalInvocationID.x;
  if (column < (group + 1u) * 32u || column >= push.columns) return;
  vec4 low = vec4(0.0), high = vec4(0.0);
  [[unroll]] for (uint j = 0u; j < 32u; ++j) {
    const float u = push.band.at[(group * 32u + j) * kBlock + column];
    low = fma(vec4(u), errors[j][0], low);
    high = fma(vec4(u), errors[j][1], high);
  }
  [[unroll]] for (uint r = 0u; r < 4u; ++r) {
    block_w[r][column / 4u][column % 4u] -= low[r];
    block_w[r + 4u][column / 4u][column % 4u] -= high[r];
  }
}

void store_errors(uint group, uint row0) {
  const uint thread = gl_LocalInvocationID.x;
  if (thread >= kRows * 8u) return;
  const uint local_row = thread / 8u, quarter = thread % 8u;
  if (row0 + local_row >= push.rows) return;
  vec4 v;
  [[unroll]] for (uint e = 0u; e < 4u; ++e)
    v[e] = errors[quarter * 4u + e][local_row / 4u][local_row % 4u];
  Uvec4s line = offset_lines(push.errors, uint64_t(group) * push.padded_rows + row0 + local_row);
  store_line(line, quarter, v, kSplit != 0u, push.scale);
}

void main() {
  const uint row0 = workgroup_number() * kRows;
  if (row0 >= push.rows) return;
  const uint thread = gl_LocalInvocationID.x;
  const uint local_row = thread / 32u, lane = thread % 32u;
  const bool valid = row0 + local_row < push.rows;
  const uint row = min(row0 + local_row, push.rows - 1u);
  if (thread < kRows) row_loss[thread] = 0.0;
  for (uint i = thread; i < kRows * (kBlock / 4u); i += gl_WorkGroupSize.x) {
    const uint r = i / (kBlock / 4u), c = i % (kBlock / 4u);
    const uint from = min(row0 + r, push.rows - 1u);
    block_w[r][c] = c * 4u < push.columns
                        ? Vec4s(uint64_t(push.w) + 4ul * uint64_t(from) * push.size).at[c]
                        : vec4(0.0);
  }
  barrier();
  for (uint group = 0u; group < push.columns / 32u; ++group) {
    load_group(group, local_row);
    barrier();
    if (kSearch == 3u) {
      const float loss = round_fixed(row, group * 32u);
      if (lane == 0u && valid) write_row(row, local_row, group, 0u, loss);
    } else {
      solve_group(group, row, local_row, lane, valid);
    }
    barrier();
    store_errors(group, row0);
    update_rest(group);
    barrier();
  }
  if (lane == 0u && valid) push.loss.at[row] += row_loss[local_row];
}
