#version 450
// operand_gemm: C[M,N] (+)= alpha * A * B^T with f32 operands, fused multiply-add in f32.
// Push: GemmPush. Constants: 0 = threads (256 at edge 128, 64 at edge 64), 1 = edge of a tile of C (128; 64 where few tiles
// would leave most of the device idle). Needs: 17 KiB shared memory, no subgroup operations.
// One workgroup per tile of C; a thread holds 8 x 8 sums, 32 neighbours 32 x 64.
#extension GL_GOOGLE_include_directive : require
#include "types.glsl"
#include "layout.h"
layout(local_size_x_id = 0) in;
layout(constant_id = 1) const uint kEdge = 128u;
layout(push_constant, scalar) uniform Push { GemmPush push; };
#include "gemm_tile.glsl"

const uint kThreads = kEdge * kEdge / 64u;
const uint kDepth = 8u;               // K of one step: a quarter of a chunk
const uint kAcross = kEdge / 64u;     // groups of 32 threads side by side
const uint kPitch = kEdge / 4u + 1u;  // vec4
const uint kLoads = kEdge * kDepth / 4u / kThreads;

shared vec4 tile_a[2u * kDepth * kPitch];
shared vec4 tile_b[2u * kDepth * kPitch];

vec4 next_a[kLoads], next_b[kLoads];

void load_step(Uvec4s a, Uvec4s b, uint quarter, uint thread) {
  Vec4s va = Vec4s(uint64_t(a)), vb = Vec4s(uint64_t(b));
  [[unroll]] for (uint i = 0u; i < kLoads; ++i) {
    const uint f = i * kThreads + thread;
    next_a[i] = va.at[(f / 2u) * 8u + quarter * 2u + f % 2u];
    next_b[i] = vb.at[(f / 2u) * 8u + quarter * 2u + f % 2u];
  }
}

void store_step(uint buffer_index, uint thread) {
  [[unroll]] for (uint i = 0u; i < kLoads; ++i) {
    const uint f = i * kThreads + thread;
    const uint row = f / 2u, k = (f % 2u) * 4u;
    [[unroll]] for (uint q = 0u; q < 4u; ++q) {
      tile_a[(buffer_index * kDepth + k + q) * kPitch + row / 4u][row % 4u] = next_a[i][q];
      tile_b[(buffer_index * kDepth + k + q) * kPitch + row / 4u][row % 4u] = next_b[i][q];
    }
  }
}

void main() {
  const Tile tile = find_tile(kEdge, kEdge);
  if (!tile.wanted) return;
  const uint thread = gl_LocalInvocationID.x;
  const uint lane = thread % 32u, warp = thread / 32u;
  const uint row0 = warp / kAcross * 32u + lane / 8u * 4u;     // and 16 below
  const uint column0 = warp % kAcross * 64u + lane % 8u * 4u;  // and 32 to the right
  vec4 sum[8][2];
  [[unroll]] for (uint i = 0u; i < 8u; ++i)
    [[unroll]] for (uint j = 0u; j < 2u; ++j) sum[i][j] = vec4(0.0);

  Uvec4s a = offset_lines(push.a, uint64_t(tile.first) * push.a_rows + tile.m * kEdge);
  Uvec4s b = offset_lines(push.b, uint64_t(tile.first) * push.b_rows + tile.n * kEdge);
  const uint steps = (tile.last - tile.first) * 4u;
  if (steps > 0u) {
    load_step(a, b, 0u, thread);
    store_step(0u, thread);
    barrier();
  }
  for (uint step0 = 0u; step0 < steps; step0 += 2u)
    [[unroll]] for (uint current = 0u; current < 2u; ++current) {
      const uint next = min(step0 + current + 1u, steps - 1u);
      load_step(offset_lines(a, uint64_t(next / 4u) * push.a_rows),
                offset_lines(b, uint64_t(next / 4u) * push.b_rows), next % 4u, thread);
      const uint base_a = current * kDepth * kPitch + row0 / 4u;
      const uint base_b = current * kDepth * kPitch + column0 / 4u;
      [[unroll]] for (uint k = 0u; k < kDepth; ++k) {
        vec4 fa[2], fb[2];
        [[unroll]] for (uint i = 0u; i < 2u; ++i) fa[i] = tile_a[base_a + k * kPitch + i * 4u];
        [[unroll]] for (uint j = 0u; j < 2u; ++j) fb[j] = tile_b[base_b + k * kPitch + j * 8u];
        [[unroll]] for (uint i = 0u; i < 8u; ++i)
          [[unroll]] for (uint j = 0u; j < 2u; ++j)
            sum[i][j] = fma(vec4(fa[i / 4u][i % 4u]), fb[j], sum[i][j]);
      }
      store_step(current ^ 1u, thread);
      barrier();
    }
  [[unroll]] for (uint i = 0u; i < 8u; ++i) {
    const uint row = tile.m * kEdge + row0 + (i / 4u) * 16u + i % 4u;
    Vec4s c = Vec4s(uint64_t(advance(push.c, uint64_t(row) * push.c_stride + tile.n * kEdge + column0)));
    [[unroll]] for (uint j = 0u; j < 2u; ++j) {
      vec4 result = sum[i][j] * push.alpha;
      if ((push.flags & kGemmAdd) != 0u) result = c.at[j * 8u] + result;
      c.at[j * 8u] = result;
    }
  }
}
