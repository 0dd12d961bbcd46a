// polish.simd.cpp: coordinate descent on the codes of a group, rungs kept (docs/quality.md,
// "polish"), f64, 16 rows at a time.
#include "kernels.hpp"
#include "lanes.hpp"

namespace cortiq::gptq::CORTIQ_SIMD {
namespace {

/// The better of the code at hand and the nearest one to x / scale; a tie keeps the code, so that a
/// fixed point stays.
template <bool kFourBit>
CORTIQ_LANES_INLINE VecD better_level(VecD x, VecD scale, VecD level) {
  const VecD magic = splat(kRoundD);
  VecD nearest;
  if constexpr (kFourBit) {
    nearest = clamp((x / scale + magic) - magic, splat(-8.0), splat(7.0));
  } else {
    nearest = clamp((x / scale + splat(1.5) + magic) - magic, splat(0.0), splat(3.0)) - splat(1.5);
  }
  const VecD now = level * scale - x;
  const VecD then = nearest * scale - x;
  // now^2 - then^2 > 0 where the change pays; a zero scale gives NaN, which never does.
  return level + where_positive(now * now - then * then, nearest - level);
}

template <bool kFourBit>
void polish_rows(const PolishArgs& args, int first) {
  const VecD offset = splat(kFourBit ? 8.0 : 1.5);
  const VecD scale = load(args.scales + first);
  VecD gain = load(args.loss + first);
  alignas(64) double gradient[kGroupCols][kLanesD];
  for (int j = 0; j < kGroupCols; ++j)
    store(gradient[j], load(args.gradient + j * kSlabRows + first));
  for (int j = 0; j < kGroupCols; ++j) {
    const double* h = args.h + j * args.h_stride;
    const VecD level = load(args.levels + j * kSlabRows + first) - offset;
    const VecD g = load(gradient[j]);
    const VecD target = neg_mul_add(g, splat(args.inverse[j]), level * scale);
    const VecD better = better_level<kFourBit>(target, scale, level);
    const VecD change = (better - level) * scale;
    store(args.levels + j * kSlabRows + first, better + offset);
    store(args.change + j * kSlabRows + first, splat(0.0) - change);
    gain = mul_add(change, mul_add(change, splat(h[j]), g + g), gain);
    for (int k = j + 1; k < kGroupCols; ++k) {
      store(gradient[k], mul_add(change, splat(h[k]), load(gradient[k])));
    }
  }
  store(args.loss + first, gain);
}

/// Four columns of x at a time.
void minimum_of_rows(const MinimumArgs& args, int first) {
  constexpr int kPanel = 4;
  VecD loss = splat(0.0);
  for (int k0 = 0; k0 < kGroupCols; k0 += kPanel) {
    VecD step[kPanel];
    for (VecD& value : step) value = splat(0.0);
    for (int j = 0; j < kGroupCols; ++j) {
      const VecD g = load(args.gradient + j * kSlabRows + first);
      const double* row = args.inverse + j * kGroupCols + k0;
      for (int k = 0; k < kPanel; ++k) step[k] = mul_add(g, splat(row[k]), step[k]);
    }
    for (int k = 0; k < kPanel; ++k) {
      const int at = (k0 + k) * kSlabRows + first;
      loss = mul_add(load(args.gradient + at), step[k], loss);
      store(args.x + at, load(args.values + at) - step[k]);
    }
  }
  store(args.loss + first, loss);
}

}  // namespace

void group_minimum(const MinimumArgs& args) {
  for (int first = 0; first < kSlabRows; first += kLanesD) minimum_of_rows(args, first);
}

void polish_group(const PolishArgs& args) {
  for (int first = 0; first < kSlabRows; first += kLanesD) {
    args.four_bit ? polish_rows<true>(args, first) : polish_rows<false>(args, first);
  }
}

}  // namespace cortiq::gptq::CORTIQ_SIMD
