// half.hpp: f16 and bf16 <-> f32. The f32 -> f16 rule is the CMF format's (docs/spec/codecs.md
// section 1).
#pragma once

#include <cstdint>

namespace cortiq {

/// Exact, subnormals, infinities and NaN payload bits included.
[[nodiscard]] float f16_to_f32(std::uint16_t half) noexcept;
/// Round to nearest even for normal results, overflow to infinity, but round HALF UP IN MAGNITUDE
/// where the result is subnormal (processors' own conversion differs there on ties).
[[nodiscard]] std::uint16_t f32_to_f16(float value) noexcept;
[[nodiscard]] float bf16_to_f32(std::uint16_t bits) noexcept;
/// Round to nearest even; NaN stays NaN.
[[nodiscard]] std::uint16_t f32_to_bf16(float value) noexcept;

}  // namespace cortiq
