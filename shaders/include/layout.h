// layout.h: push constants and constants shared by the kernels and the program. Read by GLSL and C++.
//
// Packed operand ("operand"): what the matrix products read. K is cut into chunks of 32; chunk q holds
// one line of 128 bytes per row: element (row, k) lies in line (k/32)*rows + row. A line is 32 f32 values, or,
// split for cooperative matrices, 32 f16 high halves followed by 32 f16 low halves of value * scale.
#ifndef CORTIQ_LAYOUT_H
#define CORTIQ_LAYOUT_H

#ifdef __cplusplus
#include <cstdint>
#define CORTIQ_U32 std::uint32_t
#define CORTIQ_F32 float
#define CORTIQ_POINTER(T) std::uint64_t
#define CORTIQ_CONST inline constexpr std::uint32_t
namespace cortiq::device::layout {
#else
#define CORTIQ_U32 uint
#define CORTIQ_F32 float
#define CORTIQ_POINTER(T) T
#define CORTIQ_CONST const uint
#endif

CORTIQ_CONST kChunk = 32;       // K of one line of an operand
CORTIQ_CONST kLineWords = 32;   // 32-bit words of a line
CORTIQ_CONST kTile = 128;       // edge of a tile of the products; every dimension is padded to it
CORTIQ_CONST kNoRung = 0xff;    // a group without a scale: all zero

// Flags of GemmPush.
CORTIQ_CONST kGemmStore = 0;       // C = alpha A B^T
CORTIQ_CONST kGemmAdd = 1;         // C += alpha A B^T
CORTIQ_CONST kGemmLowerOnly = 2;   // tiles above the diagonal are left alone
CORTIQ_CONST kGemmTriangularB = 4; // rows n of B are zero for k < n: start there
CORTIQ_CONST kGemmUpperB = 8;      // rows n of B are zero for k > n: stop there

// C[M,N] (+)= alpha * A[M,K] * B[N,K]^T; A and B operands, C f32 row-major.
struct GemmPush {
  CORTIQ_POINTER(Uvec4s) a;   // first line
  CORTIQ_POINTER(Uvec4s) b;
  CORTIQ_POINTER(Floats) c;   // first element
  CORTIQ_U32 a_rows;          // lines of one chunk of A
  CORTIQ_U32 b_rows;
  CORTIQ_U32 c_stride;        // elements
  CORTIQ_U32 chunks;          // K / 32
  CORTIQ_U32 tiles_m;
  CORTIQ_U32 tiles_n;
  CORTIQ_U32 flags;
  CORTIQ_U32 row0;            // position of C in the whole matrix, for kGemmLowerOnly
  CORTIQ_U32 col0;
  CORTIQ_U32 k0;              // K position of the first chunk, for kGemmTriangularB and kGemmUpperB
  CORTIQ_F32 alpha;
  CORTIQ_U32 reserved;
};

// A[i][j] for j <= i, equilibrated and reversed; see shaders/fold/hessian_build.comp.
struct BuildPush {
  CORTIQ_POINTER(Floats) h;        // packed upper triangle
  CORTIQ_POINTER(Floats) a;        // [size, size]
  CORTIQ_POINTER(Uints) channel;   // [n] position -> channel; dead: bit 31
  CORTIQ_POINTER(Floats) inverse;  // [n] 1 / sqrt(damped diagonal), by position
  CORTIQ_U32 n;
  CORTIQ_U32 size;                 // n padded to kTile
  CORTIQ_U32 tiles;                // size / 32
  CORTIQ_F32 base_inverse;         // 1 / damping base: `inverse` is in units of sqrt(base)
};

struct PotrfPush {
  CORTIQ_POINTER(Floats) a;        // first element of the diagonal block
  CORTIQ_POINTER(Floats) inverse;  // [128,128] out
  CORTIQ_POINTER(Uints) status;    // [0]: set to 1 + column of the first bad pivot
  CORTIQ_U32 stride;
  CORTIQ_U32 column;
};

struct TrsmPush {
  CORTIQ_POINTER(Vec4s) a;         // [rows,128] of the panel, row stride `stride`
  CORTIQ_POINTER(Vec4s) inverse;   // [128,128]
  CORTIQ_POINTER(Uvec4s) out_lines;// operand: line of (first row, first column)
  CORTIQ_U32 stride;               // elements
  CORTIQ_U32 out_rows;             // lines of one chunk
  CORTIQ_U32 groups;
  CORTIQ_F32 scale;                // of the split
};

struct FinishPush {
  CORTIQ_POINTER(Vec4s) x;         // row c of X, first column
  CORTIQ_POINTER(Vec4s) inverse;   // [128,128] of the diagonal block
  CORTIQ_POINTER(Uvec4s) out_lines;// operand of X^T: line of (column 0, row c)
  CORTIQ_U32 stride;
  CORTIQ_U32 out_rows;
  CORTIQ_U32 column;               // c
  CORTIQ_U32 groups;               // c/128 + 1
  CORTIQ_F32 scale;
};

// U from X: operand of U^T (K = row of U) for the blocks right of the diagonal, and the diagonal blocks.
struct FactorPush {
  CORTIQ_POINTER(Floats) x;
  CORTIQ_POINTER(Floats) inverse;  // [n] 1 / D by reversed position
  CORTIQ_POINTER(Uvec4s) out_lines;// [size/32][size]
  CORTIQ_POINTER(Floats) band;     // [size/block][block][block]
  CORTIQ_POINTER(Uints) status;    // [1]: number of values that are not finite or exceed the split's range
  CORTIQ_U32 n;
  CORTIQ_U32 size;
  CORTIQ_U32 block;                // columns of a diagonal block, a multiple of 32
  CORTIQ_U32 tiles;                // size / 32
  CORTIQ_F32 scale;
};

#ifdef __cplusplus
}  // namespace cortiq::device::layout
#endif
#endif
