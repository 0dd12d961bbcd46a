// q4tp: the converter's ladder and rungs of a row (codecs.md section 3).
#include <algorithm>
#include <cmath>
#include <limits>

#include "cortiq/codec/ladder.hpp"
#include "cortiq/support/error.hpp"
#include "scalar_math.hpp"

namespace cortiq::codec {

namespace {

float tile_error(const float* w, float s) noexcept {
  const float inv = 1.0F / s;
  float error = 0.0F;
  for (int i = 0; i < kGroup; ++i) {
    const float q = std::clamp(std::nearbyint(w[i] * inv), -8.0F, 7.0F);
    const float d = w[i] - q * s;
    error = error + d * d;
  }
  return error;
}

unsigned search_rung(const float* w, int nominal, const Ladder& ladder) noexcept {
  float best = std::numeric_limits<float>::infinity();
  int rung = nominal;
  for (int c = std::max(nominal - 2, 0); c <= std::min(nominal + 1, kRungs - 1); ++c) {
    const float s = ladder[static_cast<std::size_t>(c)];
    if (!(s > 0.0F)) continue;
    const float error = tile_error(w, s);
    if (error < best) {
      best = error;
      rung = c;
    }
  }
  return static_cast<unsigned>(rung);
}

}  // namespace

LadderParams q4tp_converter_row(std::span<const float> row,
                                std::span<std::uint8_t> rungs) noexcept {
  const std::int64_t groups = static_cast<std::int64_t>(row.size()) / kGroup;
  CORTIQ_ASSERT(static_cast<std::int64_t>(row.size()) % kGroup == 0 && groups > 0);
  float lo = std::numeric_limits<float>::infinity();
  float hi = -lo;
  for (std::int64_t g = 0; g < groups; ++g) {
    const float a = abs_max(row.data() + g * kGroup, kGroup);
    if (a == 0.0F) continue;
    const float lg = det_log2(f16_scale(a / 7.0F));
    lo = std::fmin(lo, lg);
    hi = std::fmax(hi, lg);
  }
  if (hi < lo) lo = hi = det_log2(kTiny);
  LadderParams params{f32_to_f16(lo), 0};
  params.step = covering_step(params.lo, hi, kRungs - 1);
  if (rungs.empty()) return params;
  const float low = f16_to_f32(params.lo);
  const float step = f16_to_f32(params.step);
  const Ladder ladder = q4tp_ladder(params);
  for (std::int64_t g = 0; g < groups; ++g) {
    const float* tile = row.data() + g * kGroup;
    const float a = abs_max(tile, kGroup);
    unsigned rung = 0;
    if (a != 0.0F && step > 0.0F) {
      const int nominal = round_clamp((det_log2(f16_scale(a / 7.0F)) - low) / step, 0.0F, 31.0F);
      rung = search_rung(tile, nominal, ladder);
    }
    rungs[static_cast<std::size_t>(g)] = static_cast<std::uint8_t>(rung);
  }
  return params;
}

}  // namespace cortiq::codec
