// rounding.simd.cpp: final rounding of a group with error feedback, and the update of the rest of
// its block (gptq.md sections 4 and 6), f64, 16 rows at a time.
#include "kernels.hpp"
#include "lanes.hpp"

namespace cortiq::gptq::CORTIQ_SIMD {
namespace {

constexpr int kPanel = 4;
constexpr int kChains = 2;
constexpr int kPassRows = kChains * kLanesD;

template <bool kFourBit>
CORTIQ_LANES_INLINE VecD nearest_code(VecD x, VecD scale) {
  const VecD magic = splat(kRoundD);
  VecD code;
  if constexpr (kFourBit) {
    code = clamp((x / scale + magic) - magic, splat(-8.0), splat(7.0));
  } else {
    code = clamp((x / scale + splat(1.5) + magic) - magic, splat(0.0), splat(3.0));
  }
  return where_positive(scale, code);
}

/// Rows [first, first + kPassRows) of the slab. levels [32][16]: q (four bits) or the code.
template <bool kFourBit>
void round_rows(const RoundArgs& args, int first, double* levels) {
  const double offset = kFourBit ? 0.0 : 1.5;
  alignas(64) double residual[kGroupCols][kPassRows];
  VecD loss[kChains];
  for (int c = 0; c < kChains; ++c) loss[c] = load(args.loss + first + c * kLanesD);
  for (int j0 = 0; j0 < kGroupCols; j0 += kPanel) {
    VecD v[kPanel][kChains];
#pragma GCC unroll 4
    for (int k = 0; k < kPanel; ++k) {
      v[k][0] = load(args.x + (j0 + k) * kSlabRows + first);
      v[k][1] = load(args.x + (j0 + k) * kSlabRows + first + kLanesD);
    }
    for (int i = 0; i < j0; ++i) {
      const VecD r0 = load(residual[i]);
      const VecD r1 = load(residual[i] + kLanesD);
      const double* row = args.ratio + i * kGroupCols + j0;
#pragma GCC unroll 4
      for (int k = 0; k < kPanel; ++k) {
        const VecD u = splat(row[k]);
        v[k][0] = neg_mul_add(r0, u, v[k][0]);
        v[k][1] = neg_mul_add(r1, u, v[k][1]);
      }
    }
#pragma GCC unroll 4
    for (int k = 0; k < kPanel; ++k) {
      const int j = j0 + k;
      const VecD inverse = splat(args.inverse[j]);
      VecD r[kChains];
#pragma GCC unroll 2
      for (int c = 0; c < kChains; ++c) {
        const int row = first + c * kLanesD;
        const VecD scale = load(args.scales + j * args.scale_stride + row);
        const VecD code = nearest_code<kFourBit>(v[k][c], scale);
        store(levels + j * kSlabRows + row, code);
        r[c] = neg_mul_add(code - splat(offset), scale, v[k][c]);
        const VecD error = r[c] * inverse;
        store(residual[j] + c * kLanesD, r[c]);
        store(args.error + j * kSlabRows + row, error);
        loss[c] = mul_add(error, error, loss[c]);
      }
#pragma GCC unroll 4
      for (int m = k + 1; m < kPanel; ++m) {
        const VecD u = splat(args.ratio[j * kGroupCols + j0 + m]);
        v[m][0] = neg_mul_add(r[0], u, v[m][0]);
        v[m][1] = neg_mul_add(r[1], u, v[m][1]);
      }
    }
  }
  for (int c = 0; c < kChains; ++c) store(args.loss + first + c * kLanesD, loss[c]);
}

}  // namespace

void round_group(const RoundArgs& args) {
  alignas(64) double levels[kGroupCols * kSlabRows];
  for (int first = 0; first < kSlabRows; first += kPassRows) {
    args.four_bit ? round_rows<true>(args, first, levels) : round_rows<false>(args, first, levels);
  }
  const int shift = args.four_bit ? 8 : 0;
  for (int i = 0; i < kGroupCols * kSlabRows; ++i) {
    args.codes[i] = static_cast<std::uint8_t>(static_cast<int>(levels[i]) + shift);
  }
}

void update_columns(const UpdateArgs& args) {
  for (int c = args.begin; c < args.end; c += kPanel) {
    for (int first = 0; first < kSlabRows; first += kPassRows) {
      VecD v[kPanel][kChains];
#pragma GCC unroll 4
      for (int k = 0; k < kPanel; ++k) {
        v[k][0] = load(args.x + (c + k) * kSlabRows + first);
        v[k][1] = load(args.x + (c + k) * kSlabRows + first + kLanesD);
      }
      for (int j = 0; j < kGroupCols; ++j) {
        const VecD e0 = load(args.error + j * kSlabRows + first);
        const VecD e1 = load(args.error + j * kSlabRows + first + kLanesD);
        const double* row = args.u + j * args.u_stride + c;
#pragma GCC unroll 4
        for (int k = 0; k < kPanel; ++k) {
          const VecD u = splat(row[k]);
          v[k][0] = neg_mul_add(e0, u, v[k][0]);
          v[k][1] = neg_mul_add(e1, u, v[k][1]);
        }
      }
#pragma GCC unroll 4
      for (int k = 0; k < kPanel; ++k) {
        store(args.x + (c + k) * kSlabRows + first, v[k][0]);
        store(args.x + (c + k) * kSlabRows + first + kLanesD, v[k][1]);
      }
    }
  }
}

}  // namespace cortiq::gptq::CORTIQ_SIMD
