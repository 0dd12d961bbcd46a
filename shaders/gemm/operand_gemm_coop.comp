#version 450
// operand_gemm_coop: C[M,N] (+)= alpha * A * B^T with split operands, on cooperative matrices.
// Each f32 value is the sum of two f16 halves (22 bits); three of the four products are formed. The matrix unit
// truncates as it accumulates, so its sums are added to f32 sums after every K = 32.
// Push: GemmPush. Constants: 0 = threads (2 * edge), 1 = products formed (3; 1 = the high halves alone), 2 = edge of a
// tile of C (128, or 64 where few tiles would leave most of the device idle). Needs: subgroup 32, 36 KiB shared memory, KHR f16 16x16x16.
// One workgroup per tile of C.
#pragma use_vulkan_memory_model
#extension GL_KHR_memory_scope_semantics : require
#extension GL_KHR_cooperative_matrix : require
#extension GL_KHR_shader_subgroup_basic : require
#extension GL_EXT_shader_explicit_arithmetic_types_float16 : require
#extension GL_GOOGLE_include_directive : require
#include "types.glsl"
#include "layout.h"
layout(local_size_x_id = 0) in;
layout(constant_id = 1) const uint kProducts = 3u;
layout(constant_id = 2) const uint kEdge = 128u;
layout(push_constant, scalar) uniform Push { GemmPush push; };
#include "gemm_tile.glsl"

const uint kThreads = 2u * kEdge;
const uint kPitch = 9u;                       // uvec4 per shared line: 8 and a pad against bank conflicts
const uint kWarpRows = 32u, kWarpCols = kEdge / 2u;  // of C, per subgroup
const uint kWarpsAcross = 2u;
const uint kRowBlocks = kWarpRows / 16u, kColBlocks = kWarpCols / 16u;
const uint kLoads = kEdge * 8u / kThreads;    // uvec4 per thread, operand and chunk

#define MatrixA coopmat<float16_t, gl_ScopeSubgroup, 16, 16, gl_MatrixUseA>
#define MatrixB coopmat<float16_t, gl_ScopeSubgroup, 16, 16, gl_MatrixUseB>
#define MatrixC coopmat<float, gl_ScopeSubgroup, 16, 16, gl_MatrixUseAccumulator>

shared uvec4 tile_a[kEdge * kPitch];
shared uvec4 tile_b[kEdge * kPitch];

void main() {
  const Tile tile = find_tile(kEdge, kEdge);
  if (!tile.wanted) return;
  const uint thread = gl_LocalInvocationID.x;
  const uint warp_m = gl_SubgroupID / kWarpsAcross, warp_n = gl_SubgroupID % kWarpsAcross;
  const uint column = thread % 8u, row = thread / 8u;
  const uint store = row * kPitch + column;
  Uvec4s a = offset_lines(push.a, uint64_t(tile.first) * push.a_rows + tile.m * kEdge);
  Uvec4s b = offset_lines(push.b, uint64_t(tile.first) * push.b_rows + tile.n * kEdge);

  float zero = 0.0;  // not a constant: some compilers give constant matrices another type
  MatrixC sum[kRowBlocks * kColBlocks];
  MatrixC part[kRowBlocks * kColBlocks];
  [[unroll]] for (uint i = 0u; i < kRowBlocks; ++i)
    [[unroll]] for (uint j = 0u; j < kColBlocks; ++j) {
      sum[i * kColBlocks + j] = MatrixC(zero);
      part[i * kColBlocks + j] = MatrixC(zero);
    }
  uvec4 next_a[kLoads], next_b[kLoads];
  [[unroll]] for (uint i = 0u; i < kLoads; ++i) {
    next_a[i] = a.at[thread + i * kThreads];
    next_b[i] = b.at[thread + i * kThreads];
  }
  for (uint chunk = tile.first; chunk < tile.last; ++chunk) {
    barrier();
    [[unroll]] for (uint i = 0u; i < kLoads; ++i) {
      tile_a[store + i * (kThreads / 8u) * kPitch] = next_a[i];
      tile_b[store + i * (kThreads / 8u) * kPitch] = next_b[i];
    }
    barrier();
    // Unconditional: a branch here would serialize the loads. The last round reads the same lines again.
    const uint64_t step = chunk + 1u < tile.last ? 1ul : 0ul;
    a = offset_lines(a, step * push.a_rows);
    b = offset_lines(b, step * push.b_rows);
    [[unroll]] for (uint i = 0u; i < kLoads; ++i) {
      next_a[i] = a.at[thread + i * kThreads];
      next_b[i] = b.at[thread + i * kThreads];
    }
    const uint base_a = warp_m * kWarpRows * kPitch, base_b = warp_n * kWarpCols * kPitch;
    [[unroll]] for (uint k = 0u; k < 2u; ++k) {
      MatrixA high_a[kRowBlocks];
      MatrixA low_a[kRowBlocks];
      [[unroll]] for (uint i = 0u; i < kRowBlocks; ++i) {
        coopMatLoad(high_a[i], tile_a, base_a + i * 16u * kPitch + k * 2u, kPitch,
                    gl_CooperativeMatrixLayoutRowMajor);
        if (kProducts == 3u)
          coopMatLoad(low_a[i], tile_a, base_a + i * 16u * kPitch + k * 2u + 4u, kPitch,
                      gl_CooperativeMatrixLayoutRowMajor);
      }
      [[unroll]] for (uint j = 0u; j < kColBlocks; ++j) {
        MatrixB high_b;  // one declaration each: glslang 13 gives the second of a list another type
        MatrixB low_b;
        coopMatLoad(high_b, tile_b, base_b + j * 16u * kPitch + k * 2u, kPitch,
                    gl_CooperativeMatrixLayoutColumnMajor);
        [[unroll]] for (uint i = 0u; i < kRowBlocks; ++i)
          part[i * kColBlocks + j] = coopMatMulAdd(high_a[i], high_b, part[i * kColBlocks + j]);
        if (kProducts == 3u) {
          coopMatLoad(low_b, tile_b, base_b + j * 16u * kPitch + k * 2u + 4u, kPitch,
                      gl_CooperativeMatrixLayoutColumnMajor);
          [[unroll]] for (uint i = 0u; i < kRowBlocks; ++i) {
            part[i * kColBlocks + j] = coopMatMulAdd(low_a[i], high_b, part[i * kColBlocks + j]);
            part[i * kColBlocks + j] = coopMatMulAdd(high_a[i], low_b, part[i * kColBlocks + j]);
          }
        }
      }
    }
    [[unroll]] for (uint i = 0u; i < kRowBlocks; ++i)
      [[unroll]] for (uint j = 0u; j < kColBlocks; ++j) {
        sum[i * kColBlocks + j] = sum[i * kColBlocks + j] + part[i * kColBlocks + j];
        part[i * kColBlocks + j] = MatrixC(zero);
      }
  }
  Floats c = advance(push.c, uint64_t(tile.m * kEdge + warp_m * kWarpRows) * push.c_stride +
                                tile.n * kEdge + warp_n * kWarpCols);
  [[unroll]] for (uint i = 0u; i < kRowBlocks; ++i)
    [[unroll]] for (uint j = 0u; j < kColBlocks; ++j) {
      const uint at = i * 16u * push.c_stride + j * 16u;
      MatrixC result = sum[i * kColBlocks + j] * push.alpha;
      if ((push.flags & kGemmAdd) != 0u) {
        MatrixC old;
        coopMatLoad(old, c.at, at, push.c_stride, gl_CooperativeMatrixLayoutRowMajor);
        result = old + result;
      }
      coopMatStore(result, c.at, at, push.c_stride, gl_CooperativeMatrixLayoutRowMajor);
    }
}
