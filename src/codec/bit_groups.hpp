// bit_groups.hpp: groups of 32 signs: bit k of byte j is weight 8j+k, 1 stands for +scale (q1, q1g,
// q1s).
#pragma once

#include <cstdint>

namespace cortiq::codec {

inline constexpr std::int64_t kQ1GroupBytes = 6;  ///< half scale, then 4 bytes of signs

inline void decode_signs(const std::uint8_t* bits, float scale, float* out) noexcept {
  const float values[2] = {-scale, scale};
  for (int i = 0; i < 32; ++i) out[i] = values[(bits[i / 8] >> (i % 8)) & 1];
}

/// Marks weight i of a zeroed group as positive.
inline void set_sign(std::uint8_t* bits, std::int64_t i) noexcept {
  bits[i / 8] = static_cast<std::uint8_t>(bits[i / 8] | (1U << (i % 8)));
}

}  // namespace cortiq::codec
