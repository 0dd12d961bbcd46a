// scalar_math.hpp: the rounding, clamping and scale rules that all encoders share (codecs.md
// sections 0 and 1).
#pragma once

#include <algorithm>
#include <cmath>
#include <cstdint>

#include "cortiq/support/half.hpp"

namespace cortiq::codec {

inline constexpr std::int64_t kGroup = 32;  ///< consecutive input channels that share a scale
inline constexpr std::uint16_t kTinyHalf = 0x0400;  ///< 2^-14, the least scale of a file
inline constexpr float kTiny = 0x1p-14F;

/// Half of max(f16(x), 2^-14). A NaN gives 2^-14, an overflow infinity. x >= 0 or NaN.
[[nodiscard]] inline std::uint16_t f16_scale_bits(float x) noexcept {
  const std::uint16_t half = f32_to_f16(x);
  return half > 0x7C00 ? kTinyHalf : std::max(half, kTinyHalf);
}

/// Round to nearest, ties to even, for |x| < 2^22 (the sum's last bit is worth 1 there).
[[nodiscard]] inline float round_even(float x) noexcept { return (x + 0x1.8p23F) - 0x1.8p23F; }

/// int(clamp(rte(x), lo, hi)) for integral bounds of small magnitude; NaN gives 0 as the
/// reference's cast does. Clamping first gives the same integer and keeps the rounding in range.
[[nodiscard]] inline int round_clamp(float x, float lo, float hi) noexcept {
  if (std::isnan(x)) return 0;
  return static_cast<int>(round_even(std::clamp(x, lo, hi)));
}

/// Largest magnitude; starts at 0 and passes over NaN.
[[nodiscard]] inline float abs_max(const float* values, std::int64_t count) noexcept {
  float best = 0.0F;
  for (std::int64_t i = 0; i < count; ++i) best = std::fmax(best, std::fabs(values[i]));
  return best;
}

/// Sum of magnitudes in index order.
[[nodiscard]] inline float abs_sum(const float* values, std::int64_t count) noexcept {
  float sum = 0.0F;
  for (std::int64_t i = 0; i < count; ++i) sum = sum + std::fabs(values[i]);
  return sum;
}

}  // namespace cortiq::codec
