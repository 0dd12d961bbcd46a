// small_tile.glsl: the 64 x 128 x 128 product inside panel_trsm and inverse_finish: f32, 256 threads, 4 x 8 sums a
// thread, K in steps of 16 through two shared buffers. The kernel fills next_a and next_b.
#ifndef CORTIQ_SMALL_TILE_GLSL
#define CORTIQ_SMALL_TILE_GLSL

const uint kThreads = 256u;
const uint kRowsOut = 64u, kDepth = 16u;
const uint kPitchA = kRowsOut / 4u + 1u, kPitchB = kTile / 4u + 1u;  // vec4
const uint kLoadsA = kRowsOut * kDepth / 4u / kThreads, kLoadsB = kTile * kDepth / 4u / kThreads;

shared vec4 tile_a[2u * kDepth * kPitchA];
shared vec4 tile_b[2u * kDepth * kPitchB];

vec4 next_a[kLoadsA], next_b[kLoadsB];
vec4 sum[4][2];

// A warp of 32 does 32 rows x 32 columns: 8 x 4 lanes.
uint lane_down() { return (gl_LocalInvocationID.x % 32u) / 4u; }
uint lane_across() { return gl_LocalInvocationID.x % 4u; }
uint warp_down() { return gl_LocalInvocationID.x / 128u; }
uint warp_across() { return gl_LocalInvocationID.x / 32u % 4u; }
// First of four consecutive rows, and of four consecutive columns (half 0 or 1).
uint first_row() { return warp_down() * 32u + lane_down() * 4u; }
uint first_column(uint half_index) { return warp_across() * 32u + half_index * 16u + lane_across() * 4u; }

void store_a_transposed(uint buffer_index) {
  [[unroll]] for (uint i = 0u; i < kLoadsA; ++i) {
    const uint f = i * kThreads + gl_LocalInvocationID.x;
    const uint row = (f / 2u) % kRowsOut, k = ((f / 2u) / kRowsOut * 2u + f % 2u) * 4u;
    [[unroll]] for (uint q = 0u; q < 4u; ++q)
      tile_a[(buffer_index * kDepth + k + q) * kPitchA + row / 4u][row % 4u] = next_a[i][q];
  }
}

// B given as rows of [128][K].
void store_b_transposed(uint buffer_index) {
  [[unroll]] for (uint i = 0u; i < kLoadsB; ++i) {
    const uint f = i * kThreads + gl_LocalInvocationID.x;
    const uint row = (f / 2u) % kTile, k = ((f / 2u) / kTile * 2u + f % 2u) * 4u;
    [[unroll]] for (uint q = 0u; q < 4u; ++q)
      tile_b[(buffer_index * kDepth + k + q) * kPitchB + row / 4u][row % 4u] = next_b[i][q];
  }
}

void multiply_step(uint buffer_index) {
  const uint base_a = buffer_index * kDepth * kPitchA + warp_down() * 8u + lane_down();
  const uint base_b = buffer_index * kDepth * kPitchB + warp_across() * 8u + lane_across();
  [[unroll]] for (uint k = 0u; k < kDepth; ++k) {
    const vec4 fa = tile_a[base_a + k * kPitchA];
    vec4 fb[2];
    [[unroll]] for (uint j = 0u; j < 2u; ++j) fb[j] = tile_b[base_b + k * kPitchB + j * 4u];
    [[unroll]] for (uint i = 0u; i < 4u; ++i)
      [[unroll]] for (uint j = 0u; j < 2u; ++j) sum[i][j] = fma(vec4(fa[i]), fb[j], sum[i][j]);
  }
}

void clear_sums() {
  [[unroll]] for (uint i = 0u; i < 4u; ++i)
    [[unroll]] for (uint j = 0u; j < 2u; ++j) sum[i][j] = vec4(0.0);
}
#endif
