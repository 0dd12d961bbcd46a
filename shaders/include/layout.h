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
CORTIQ_CONST kGemmBehindB = 8;     // only k behind the block of kTile that holds the columns of the tile
CORTIQ_CONST kGemmDiagonalB = 16;  // only k inside of that block

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
  CORTIQ_U32 k0;              // K position of the first chunk, for the last three flags
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

// Specialization constants of the ladder kernels: the rule that places a row's ladder.
CORTIQ_CONST kLadderQ4tp = 0;    // largest magnitude / 7
CORTIQ_CONST kLadderPlaced = 1;  // q2tp, the best of 31 scales a group, four tops
CORTIQ_CONST kLadderCortiq = 2;  // q2tp, largest magnitude / 1.5, four tops

// Ladders of rows; see shaders/sweep/row_ladder.comp.
struct LadderPush {
  CORTIQ_POINTER(Vec4s) weights;   // [rows][n] natural order
  CORTIQ_POINTER(Vec4s) live;      // [n] 1 or 0
  CORTIQ_POINTER(Vec4s) hw;        // [n] weights of the error; kLadderPlaced only
  CORTIQ_POINTER(Uints) params;    // [rows] out: f16 lo | f16 step << 16
  CORTIQ_POINTER(Uints) rungs;     // [rows][n/32] out where asked for
  CORTIQ_U32 groups;               // n / 32
  CORTIQ_U32 rows;
};

// The second ladder of a row; see shaders/sweep/ladder_refit.comp.
struct RefitPush {
  CORTIQ_POINTER(Uints) wide;      // [rows] params of the first pass
  CORTIQ_POINTER(Uints) rungs;     // [rows][groups] that it used
  CORTIQ_POINTER(Uints) params;    // [rows] out; may be `wide`
  CORTIQ_U32 groups;
  CORTIQ_U32 rows;
};

// Params -> 32 scales; see shaders/sweep/ladder_table.comp.
struct TablePush {
  CORTIQ_POINTER(Uints) params;    // [rows]
  CORTIQ_POINTER(Floats) table;    // [rows][32] out
  CORTIQ_U32 rows;
};

// The payload of one tensor of a stack; see shaders/sweep/codes_pack.comp. Addresses start at the tensor's first row.
struct PackPush {
  CORTIQ_POINTER(Uvec4s) codes;    // [rows][groups] nibbles by elimination position
  CORTIQ_POINTER(Uints) rungs;     // [rows][groups]
  CORTIQ_POINTER(Uints) params;    // [rows]
  CORTIQ_POINTER(Uints) position;  // [32 * groups] channel -> elimination position
  CORTIQ_POINTER(Uints) payload;   // out
  CORTIQ_POINTER(Uints) zero_groups;   // [1] number of all-zero groups is added
  CORTIQ_U32 groups;
  CORTIQ_U32 rows;
  CORTIQ_U32 rung_row_bytes;
  CORTIQ_U32 rung_words;           // of the rung plane, rounded up
};

// Kernels of the sweep. Rows of a stack of tensors; positions are those of the elimination order.
// codes [rows][groups]: nibble t of the vector of position group a is the code of position 32a+t (level + 8, or 0..3).
// rungs [rows][groups] by natural group. table [rows][32]: scales of the rungs.

// Working weights: elimination order, dead channels zero, columns padded with zeros.
struct GatherPush {
  CORTIQ_POINTER(Floats) weights;  // [rows, n] natural
  CORTIQ_POINTER(Uints) channel;   // [n] position -> channel, bit 31 = dead
  CORTIQ_POINTER(Floats) out_matrix;  // [padded rows, size] f32; or, for the operand kernel, unused
  CORTIQ_POINTER(Uvec4s) out_lines;   // operand lines, chunks of positions
  CORTIQ_POINTER(Uvec4s) codes;    // kGatherError only
  CORTIQ_POINTER(Uints) rungs;
  CORTIQ_POINTER(Floats) table;
  CORTIQ_U32 rows;
  CORTIQ_U32 padded_rows;
  CORTIQ_U32 n;
  CORTIQ_U32 size;
  CORTIQ_F32 scale;                // of the split
  CORTIQ_U32 reserved;
};

// One block of at most 256 columns.
struct SweepPush {
  CORTIQ_POINTER(Floats) w;        // [padded rows, size] working weights, first column of the block
  CORTIQ_POINTER(Floats) band;     // [256,256] diagonal block of U'
  CORTIQ_POINTER(Floats) table;
  CORTIQ_POINTER(Uints) params;    // [rows] f16 lo | f16 step << 16
  CORTIQ_POINTER(Floats) diagonal; // [n] H_ii / base by position, at the block's first column
  CORTIQ_POINTER(Uints) channel;   // at the block's first column
  CORTIQ_POINTER(Uints) rungs;
  CORTIQ_POINTER(Uvec4s) codes;    // [rows][groups], at the block's first group
  CORTIQ_POINTER(Uvec4s) errors;   // operand lines [8 chunks][padded rows] of e'
  CORTIQ_POINTER(Floats) loss;     // [rows] += sum of e'^2
  CORTIQ_POINTER(Uints) status;    // [0]: residuals that are not finite or leave the split's range
  CORTIQ_U32 rows;
  CORTIQ_U32 padded_rows;
  CORTIQ_U32 size;
  CORTIQ_U32 groups;               // n / 32
  CORTIQ_U32 columns;              // of this block
  CORTIQ_F32 scale;                // of the split of e'
};

// The same for coordinate descent: G in place of W, H_d in place of U.
struct PolishPush {
  CORTIQ_POINTER(Floats) gradient; // [padded rows, size] (Q - W) H_d, first column of the block
  CORTIQ_POINTER(Floats) band;     // [256,256] diagonal block of H_d / base
  CORTIQ_POINTER(Floats) table;
  CORTIQ_POINTER(Uints) channel;
  CORTIQ_POINTER(Uints) rungs;
  CORTIQ_POINTER(Uvec4s) codes;
  CORTIQ_POINTER(Uvec4s) changes;  // operand lines [8 chunks][padded rows] of q_new - q_old
  CORTIQ_POINTER(Floats) loss;     // [rows] += change of the loss
  CORTIQ_POINTER(Floats) blocks;   // [groups of the block][kMoveFloats]; block_moves only
  CORTIQ_U32 rows;
  CORTIQ_U32 padded_rows;
  CORTIQ_U32 size;
  CORTIQ_U32 groups;
  CORTIQ_U32 columns;
  CORTIQ_F32 scale;
};

// What a group move knows of H_gg: its inverse [32][32], V_jk / V_jj for k > j (else 0) [32][32], 1 / V_jj [32] (all 0: the
// group stays), see shaders/sweep/block_moves.comp.
CORTIQ_CONST kMoveFloats = 2080;

// Sums over a row: see shaders/sweep/row_sums.comp.
struct RowSumsPush {
  CORTIQ_POINTER(Floats) weights;  // [rows, n] natural
  CORTIQ_POINTER(Floats) product;  // [padded rows, size] W H_d / base
  CORTIQ_POINTER(Uints) channel;
  CORTIQ_POINTER(Floats) inverse;  // [n] 1 / D' by position
  CORTIQ_POINTER(Uvec4s) codes;
  CORTIQ_POINTER(Uints) rungs;
  CORTIQ_POINTER(Floats) table;
  CORTIQ_POINTER(Floats) sums;     // [rows][4]: sum of squared live errors, damped dead errors, num, den
  CORTIQ_U32 rows;
  CORTIQ_U32 n;
  CORTIQ_U32 size;
  CORTIQ_F32 lambda;
};

// H_d / base as operand lines and as diagonal blocks; see shaders/sweep/hessian_operand.comp.
struct OperandPush {
  CORTIQ_POINTER(Floats) h;        // packed upper triangle
  CORTIQ_POINTER(Uints) channel;   // [n] position -> channel
  CORTIQ_POINTER(Floats) inverse;  // [n] 1 / D' by position
  CORTIQ_POINTER(Uvec4s) out_lines;
  CORTIQ_POINTER(Floats) band;
  CORTIQ_U32 n;
  CORTIQ_U32 size;
  CORTIQ_U32 block;
  CORTIQ_U32 tiles;
  CORTIQ_F32 base_inverse;
  CORTIQ_F32 scale;
};

#ifdef __cplusplus
}  // namespace cortiq::device::layout
#endif
#endif
