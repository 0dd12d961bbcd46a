// kernels.hpp: arguments of the vector kernels of the sweep (one copy per instruction set,
// *.simd.cpp). A slab is 16 rows, stored column by column: element (column j, row r) at
// [j*kSlabRows + r], so that the lanes of a vector are rows and every row sees the same order of
// operations.
#pragma once

#include <cstdint>

namespace cortiq::gptq {

inline constexpr int kGroupCols = 32;
inline constexpr int kSlabRows = 16;

/// Loss of one group for several scales per row (docs/quality.md section 1), in f32: it only ranks
/// the scales.
struct SearchArgs {
  const float* x;       ///< [32][16]
  const float* ratio;   ///< [32][32] row-major, U_jk / U_jj for k > j; used with feedback
  const float* weight;  ///< [32] weight of the squared residual of each column
  const float* scales;  ///< [candidates][16]; entries <= 0 give meaningless losses
  float* loss;          ///< [candidates][16], out
  int candidates = 0;
  bool four_bit = true;   ///< q4tp levels, else q2tp levels
  bool feedback = false;  ///< residuals pass on to later columns of the group
};

/// Rounds a group for good, in f64.
struct RoundArgs {
  const double* x;        ///< [32][16]
  const double* ratio;    ///< [32][32] row-major, U_jk / U_jj for k > j, zero elsewhere
  const double* inverse;  ///< [32] 1 / U_jj
  const double* scales;   ///< column j, row r at [j*scale_stride + r]; 0 stores the zero level
  int scale_stride = 0;   ///< 0: one scale per row, kSlabRows: one per column and row
  bool four_bit = true;
  std::uint8_t* codes;  ///< [32][16], out: level + 8 or q2tp code
  double* error;        ///< [32][16], out: (x - q) / U_jj
  double* loss;         ///< [16], += sum of error^2
};

/// x[c] -= sum_j error[j] * u[j][c] for the columns [begin, end) of a block; end - begin a multiple
/// of 4.
struct UpdateArgs {
  double* x;            ///< [columns][16]
  const double* error;  ///< [32][16]
  const double* u;      ///< row j of U at u + j*u_stride, column c of the block at index c
  std::int64_t u_stride = 0;
  int begin = 0;
  int end = 0;
};

/// One pass of coordinate descent over a group: each code moves to the minimum of the damped loss
/// with all others fixed.
struct PolishArgs {
  const double* gradient;  ///< [32][16] of G = (Q - W) H_d
  const double* h;         ///< row j of H_d at h + j*h_stride, column k of the group at index k
  std::int64_t h_stride = 0;
  const double* inverse;  ///< [32] 1 / H_d,jj
  const double* scales;   ///< [16], 0 for a zero group
  bool four_bit = true;
  double* levels;  ///< [32][16] stored codes as numbers, in and out
  double* change;  ///< [32][16], out: old minus new quantized value
  double* loss;    ///< [16], += change of the damped loss (never positive but for rounding)
};

/// Where the damped loss of a row is least over the columns of one group, all others fixed.
struct MinimumArgs {
  const double* gradient;  ///< [32][16] of G = (Q - W) H_d
  const double* inverse;   ///< [32][32] H_gg^-1
  const double* values;    ///< [32][16] q
  double* x;               ///< [32][16], out: q - G H_gg^-1
  double* loss;            ///< [16], out: G H_gg^-1 G^T, what q loses against x
};

#define CORTIQ_GPTQ_KERNELS                          \
  void search_losses(const SearchArgs& args);        \
  void round_group(const RoundArgs& args);           \
  void update_columns(const UpdateArgs& args);       \
  void polish_group(const PolishArgs& args);         \
  void group_minimum(const MinimumArgs& args);       \
  /* absmax[r] = max over 32 columns of |x|. */      \
  void slab_absmax(const double* x, double* absmax); \
  /* out = f32(x * factor[r]). */                    \
  void narrow_slab(const double* x, const double* factor, float* out);

namespace portable {
CORTIQ_GPTQ_KERNELS
}
#if defined(__x86_64__)
namespace avx2 {
CORTIQ_GPTQ_KERNELS
}
namespace avx512 {
CORTIQ_GPTQ_KERNELS
}
#endif
#undef CORTIQ_GPTQ_KERNELS

}  // namespace cortiq::gptq
