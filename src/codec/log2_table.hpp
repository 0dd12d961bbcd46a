// log2_table.hpp: det_log2 of every scale that a half can hold, so that encoders need not evaluate
// the series per group.
#pragma once

#include <cstdint>

namespace cortiq::codec {

/// det_log2(f16_to_f32(scale_bits)) for scale_bits in [0x0400, 0x7C00]. Thread safe.
[[nodiscard]] float scale_log2(std::uint16_t scale_bits) noexcept;

}  // namespace cortiq::codec
