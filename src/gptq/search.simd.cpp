// search.simd.cpp: in-group loss of candidate scales, 16 rows at a time (docs/quality.md section
// 1).
#include "kernels.hpp"
#include "lanes.hpp"

namespace cortiq::gptq::CORTIQ_SIMD {
namespace {

constexpr int kPanel = 4;  // columns that stay in registers while earlier residuals are subtracted
constexpr int kChains =
    2;  // independent vectors per pass, to hide the latency of the rounding chain

/// Nearest level of x * inverse, as a multiple of the scale.
template <bool kFourBit>
CORTIQ_LANES_INLINE VecF nearest_level(VecF x, VecF inverse) {
  const VecF magic = splat(kRoundF);
  if constexpr (kFourBit) {
    return clamp(mul_add(x, inverse, magic) - magic, splat(-8.0F), splat(7.0F));
  } else {
    const VecF centre = splat(1.5F);
    const VecF code = (mul_add(x, inverse, centre) + magic) - magic;
    return clamp(code, splat(0.0F), splat(3.0F)) - centre;
  }
}

/// Losses of two (candidate, rows) vectors. x[c] points at the first column of chain c.
template <bool kFourBit, bool kFeedback>
void search_chains(const SearchArgs& args, const float* const* x, const VecF* scale, VecF* loss) {
  alignas(64) float residual[kChains][kGroupCols * kLanesF];
  VecF inverse[kChains];
  for (int c = 0; c < kChains; ++c) {
    inverse[c] = splat(1.0F) / scale[c];
    loss[c] = splat(0.0F);
  }
  for (int j0 = 0; j0 < kGroupCols; j0 += kPanel) {
    VecF v[kPanel][kChains];
#pragma GCC unroll 4
    for (int k = 0; k < kPanel; ++k) {
      v[k][0] = load(x[0] + (j0 + k) * kSlabRows);
      v[k][1] = load(x[1] + (j0 + k) * kSlabRows);
    }
    if constexpr (kFeedback) {
      for (int i = 0; i < j0; ++i) {
        const VecF r0 = load(residual[0] + i * kLanesF);
        const VecF r1 = load(residual[1] + i * kLanesF);
        const float* row = args.ratio + i * kGroupCols + j0;
#pragma GCC unroll 4
        for (int k = 0; k < kPanel; ++k) {
          const VecF u = splat(row[k]);
          v[k][0] = neg_mul_add(r0, u, v[k][0]);
          v[k][1] = neg_mul_add(r1, u, v[k][1]);
        }
      }
    }
#pragma GCC unroll 4
    for (int k = 0; k < kPanel; ++k) {
      const int j = j0 + k;
      const VecF weight = splat(args.weight[j]);
      VecF r[kChains];
#pragma GCC unroll 2
      for (int c = 0; c < kChains; ++c) {
        const VecF level = nearest_level<kFourBit>(v[k][c], inverse[c]);
        r[c] = neg_mul_add(level, scale[c], v[k][c]);
        loss[c] = mul_add(weight * r[c], r[c], loss[c]);
        if constexpr (kFeedback) store(residual[c] + j * kLanesF, r[c]);
      }
      if constexpr (kFeedback) {
#pragma GCC unroll 4
        for (int m = k + 1; m < kPanel; ++m) {
          const VecF u = splat(args.ratio[j * kGroupCols + j0 + m]);
          v[m][0] = neg_mul_add(r[0], u, v[m][0]);
          v[m][1] = neg_mul_add(r[1], u, v[m][1]);
        }
      }
    }
  }
}

template <bool kFourBit, bool kFeedback>
void search_all(const SearchArgs& args) {
  constexpr int kVectors = kSlabRows / kLanesF;
  const int total = args.candidates * kVectors;
  for (int t = 0; t < total; t += kChains) {
    const float* x[kChains];
    VecF scale[kChains];
    VecF loss[kChains];
    int slot[kChains];
    for (int c = 0; c < kChains; ++c) {
      const int task = t + c < total ? t + c : t;
      slot[c] = task / kVectors * kSlabRows + task % kVectors * kLanesF;
      x[c] = args.x + task % kVectors * kLanesF;
      scale[c] = load(args.scales + slot[c]);
    }
    search_chains<kFourBit, kFeedback>(args, x, scale, loss);
    for (int c = 0; c < kChains; ++c) store(args.loss + slot[c], loss[c]);
  }
}

}  // namespace

void search_losses(const SearchArgs& args) {
  if (args.four_bit) {
    args.feedback ? search_all<true, true>(args) : search_all<true, false>(args);
  } else {
    args.feedback ? search_all<false, true>(args) : search_all<false, false>(args);
  }
}

void slab_absmax(const double* x, double* absmax) {
  for (int r = 0; r < kSlabRows; ++r) absmax[r] = 0;
  for (int j = 0; j < kGroupCols; ++j) {
    for (int r = 0; r < kSlabRows; ++r) {
      const double magnitude = __builtin_fabs(x[j * kSlabRows + r]);
      absmax[r] = absmax[r] < magnitude ? magnitude : absmax[r];
    }
  }
}

void narrow_slab(const double* x, const double* factor, float* out) {
  for (int j = 0; j < kGroupCols; ++j) {
    for (int r = 0; r < kSlabRows; ++r) {
      out[j * kSlabRows + r] = static_cast<float>(x[j * kSlabRows + r] * factor[r]);
    }
  }
}

}  // namespace cortiq::gptq::CORTIQ_SIMD
