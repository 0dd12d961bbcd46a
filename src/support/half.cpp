#include "cortiq/support/half.hpp"

#include <bit>

namespace cortiq {

float f16_to_f32(std::uint16_t half) noexcept {
  const std::uint32_t sign = static_cast<std::uint32_t>(half & 0x8000U) << 16;
  const std::uint32_t exponent = (half >> 10) & 0x1FU;
  const std::uint32_t mantissa = half & 0x3FFU;
  if (exponent == 31) return std::bit_cast<float>(sign | 0x7F800000U | (mantissa << 13));
  if (exponent != 0)
    return std::bit_cast<float>(sign | ((exponent + 112) << 23) | (mantissa << 13));
  const float magnitude = static_cast<float>(mantissa) * 0x1p-24F;
  return std::bit_cast<float>(sign | std::bit_cast<std::uint32_t>(magnitude));
}

std::uint16_t f32_to_f16(float value) noexcept {
  const std::uint32_t bits = std::bit_cast<std::uint32_t>(value);
  const std::uint32_t sign = (bits >> 16) & 0x8000U;
  const std::int32_t biased = static_cast<std::int32_t>((bits >> 23) & 0xFFU);
  const std::uint32_t mantissa = bits & 0x7FFFFFU;
  if (biased == 255)
    return static_cast<std::uint16_t>(sign | 0x7C00U | (mantissa != 0 ? 0x200U : 0U));
  const std::int32_t exponent = biased - 112;
  if (exponent >= 31) return static_cast<std::uint16_t>(sign | 0x7C00U);
  if (exponent <= 0) {
    if (exponent < -10) return static_cast<std::uint16_t>(sign);
    const std::uint32_t full = mantissa | 0x800000U;
    const std::uint32_t shift = static_cast<std::uint32_t>(14 - exponent);
    const std::uint32_t round_up = (full >> (shift - 1)) & 1U;
    return static_cast<std::uint16_t>(sign | ((full >> shift) + round_up));
  }
  const std::uint32_t truncated = (static_cast<std::uint32_t>(exponent) << 10) | (mantissa >> 13);
  const std::uint32_t half_bit = (mantissa >> 12) & 1U;
  const std::uint32_t sticky = (mantissa & 0xFFFU) != 0 ? 1U : 0U;
  return static_cast<std::uint16_t>(sign | (truncated + (half_bit & (sticky | (truncated & 1U)))));
}

float bf16_to_f32(std::uint16_t bits) noexcept {
  return std::bit_cast<float>(static_cast<std::uint32_t>(bits) << 16);
}

std::uint16_t f32_to_bf16(float value) noexcept {
  const std::uint32_t bits = std::bit_cast<std::uint32_t>(value);
  if ((bits & 0x7FFFFFFFU) > 0x7F800000U) return static_cast<std::uint16_t>((bits >> 16) | 0x40U);
  return static_cast<std::uint16_t>((bits + 0x7FFFU + ((bits >> 16) & 1U)) >> 16);
}

}  // namespace cortiq
