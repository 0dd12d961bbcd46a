#version 450
// operand_gemm_narrow: as operand_gemm, for the narrow products of the fold: tiles of 64 x 128, and the sums start from C, read
// while the first operands are on their way. Their error is then that of the sum alone, but other bytes come out than from
// operand_gemm. alpha: a power of two with kGemmAdd, so that C / alpha is exact.
// Push: GemmPush. Constants: 0 = threads (128). Needs: 13 KiB shared memory, no subgroup operations.
// One workgroup per tile of C; a thread holds 8 x 8 sums, 32 neighbours 32 x 64.
#extension GL_GOOGLE_include_directive : require
#include "types.glsl"
#include "layout.h"
layout(local_size_x_id = 0) in;
layout(push_constant, scalar) uniform Push { GemmPush push; };
#include "gemm_tile.glsl"

const uint kRows = kTile / 2u, kColumns = kTile;
const uint kThreads = kRows * kColumns / 64u;
const uint kDepth = 8u;                   // K of one step: a quarter of a chunk
const uint kAcross = kColumns / 64u;      // groups of 32 threads side by side
const uint kPitchA = kRows / 4u + 1u, kPitchB = kColumns / 4u + 1u;  // vec4
const uint kLoadRows = kThreads / 2u;     // rows that the workgroup loads at once: two vec4 each
const uint kLoadsB = kColumns / kLoadRows;

shared vec4 tile_a[2u * kDepth * kPitchA];
shared vec4 tile_b[2u * kDepth * kPitchB];

vec4 next_a, next_b[kLoadsB];
vec4 sum[8][2];

void load_step(uint64_t a, uint64_t b) {
  next_a = Vec4s(a).at[0];
  [[unroll]] for (uint i = 0u; i < kLoadsB; ++i) next_b[i] = Vec4s(b).at[i * kLoadRows * 8u];
}

void store_step(uint buffer_index, uint thread) {
  const uint k = buffer_index * kDepth + thread % 2u * 4u, row = thread / 2u;
  [[unroll]] for (uint q = 0u; q < 4u; ++q) tile_a[(k + q) * kPitchA + row / 4u][row % 4u] = next_a[q];
  [[unroll]] for (uint i = 0u; i < kLoadsB; ++i)
    [[unroll]] for (uint q = 0u; q < 4u; ++q)
      tile_b[(k + q) * kPitchB + row / 4u + i * kLoadRows / 4u][row % 4u] = next_b[i][q];
}

void multiply_step(uint a, uint b) {
  [[unroll]] for (uint k = 0u; k < kDepth; ++k) {
    vec4 fa[2], fb[2];
    [[unroll]] for (uint i = 0u; i < 2u; ++i) fa[i] = tile_a[a + k * kPitchA + i * 4u];
    [[unroll]] for (uint j = 0u; j < 2u; ++j) fb[j] = tile_b[b + k * kPitchB + j * 8u];
    [[unroll]] for (uint i = 0u; i < 8u; ++i)
      [[unroll]] for (uint j = 0u; j < 2u; ++j) sum[i][j] = fma(vec4(fa[i / 4u][i % 4u]), fb[j], sum[i][j]);
  }
}

// Row i of the thread's part of C.
Vec4s row_of_c(uint64_t c, uint i) { return Vec4s(c + 4ul * uint64_t(i / 4u * 16u + i % 4u) * push.c_stride); }

void start_sums(uint64_t c) {
  const float inverse = 1.0 / push.alpha;
  [[unroll]] for (uint i = 0u; i < 8u; ++i)
    [[unroll]] for (uint j = 0u; j < 2u; ++j)
      sum[i][j] = (push.flags & kGemmAdd) != 0u ? row_of_c(c, i).at[j * 8u] * inverse : vec4(0.0);
}

void main() {
  const Tile tile = find_tile(kRows, kColumns);
  if (!tile.wanted) return;
  const uint thread = gl_LocalInvocationID.x;
  const uint lane = thread % 32u, warp = thread / 32u;
  const uint row0 = warp / kAcross * 32u + lane / 8u * 4u;     // and 16 below
  const uint column0 = warp % kAcross * 64u + lane % 8u * 4u;  // and 32 to the right
  const uint64_t part = 128ul * (thread / 2u) + 16ul * (thread % 2u);
  const uint64_t a = uint64_t(offset_lines(push.a, uint64_t(tile.first) * push.a_rows + tile.m * kRows)) + part;
  const uint64_t b = uint64_t(offset_lines(push.b, uint64_t(tile.first) * push.b_rows + tile.n * kColumns)) + part;
  const uint64_t c =
      uint64_t(advance(push.c, uint64_t(tile.m * kRows + row0) * push.c_stride + tile.n * kColumns + column0));
  const uint steps = (tile.last - tile.first) * 4u;
  if (steps > 0u) load_step(a, b);
  start_sums(c);
  if (steps > 0u) {
    store_step(0u, thread);
    barrier();
  }
  [[dont_unroll]] for (uint step = 0u; step < steps; ++step) {
    const uint current = step % 2u;
    const uint next = min(step + 1u, steps - 1u);
    const uint lines = next / 4u * 128u, quarter = next % 4u * 32u;  // bytes
    load_step(a + uint64_t(lines) * push.a_rows + quarter, b + uint64_t(lines) * push.b_rows + quarter);
    multiply_step(current * kDepth * kPitchA + row0 / 4u, current * kDepth * kPitchB + column0 / 4u);
    store_step(current ^ 1u, thread);
    barrier();
  }
  [[unroll]] for (uint i = 0u; i < 8u; ++i)
    [[unroll]] for (uint j = 0u; j < 2u; ++j) row_of_c(c, i).at[j * 8u] = sum[i][j] * push.alpha;
}
