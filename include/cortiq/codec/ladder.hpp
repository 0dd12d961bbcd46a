// ladder.hpp: deterministic log2/exp2, the 32-rung scale ladders of q4tp and q2tp, and their 5-bit
// codes (codecs.md section 2; gptq.md section 1).
#pragma once

#include <array>
#include <cstdint>
#include <span>

#include "cortiq/support/cpu.hpp"

namespace cortiq::codec {

[[nodiscard]] float det_log2(float x) noexcept;
[[nodiscard]] float det_exp2(float y) noexcept;
/// max(f16(x), 2^-14), the least scale a file holds.
[[nodiscard]] float f16_scale(float x) noexcept;

/// The two halves that a row stores.
struct LadderParams {
  std::uint16_t lo = 0;    ///< f16 bits of log2 of the lowest rung
  std::uint16_t step = 0;  ///< f16 bits of the log2 distance of two rungs
  bool operator==(const LadderParams&) const = default;
};

inline constexpr int kRungs = 32;
using Ladder = std::array<float, kRungs>;

/// t[0] = exp2(lo), t[c] = t[c-1] * exp2(step).
[[nodiscard]] Ladder q4tp_ladder(LadderParams params) noexcept;          // deterministic exp2
[[nodiscard]] Ladder q4tp_ladder_runtime(LadderParams params) noexcept;  // exp2f of the C library
/// Rung 0 is exactly zero, rung c is t[c-1].
[[nodiscard]] Ladder q2tp_ladder(LadderParams params) noexcept;
[[nodiscard]] Ladder q2tp_ladder_runtime(LadderParams params) noexcept;

/// Smallest f16 step with lo + rungs_above*step >= top, walked up from
/// f16(max(top-lo,0)/rungs_above) by at most 64 ulps. rungs_above is 31 for q4tp, 30 for q2tp; top
/// in log2.
[[nodiscard]] std::uint16_t covering_step(std::uint16_t lo, float top, int rungs_above) noexcept;

/// Bytes of one row's 5-bit codes for `groups` groups: ceil(5*groups/8).
[[nodiscard]] constexpr std::int64_t rung_row_bytes(std::int64_t groups) noexcept {
  return (5 * groups + 7) / 8;
}
/// ORs a code into a zeroed row; reads it back.
void put_rung(std::uint8_t* row, std::int64_t group, unsigned rung) noexcept;
[[nodiscard]] unsigned get_rung(const std::uint8_t* row, std::int64_t group) noexcept;

/// Parameters and rungs of one row by the converter's rule, needed by the GPTQ sweeps
/// (gptq.md 1.1, 1.2, section 6). row: cols f32 (cols % 32 == 0), rungs: cols/32 entries or empty.
/// hw: cols non-negative weights of the error.
[[nodiscard]] LadderParams q4tp_converter_row(std::span<const float> row,
                                              std::span<std::uint8_t> rungs) noexcept;
[[nodiscard]] LadderParams q2tp_v1_row(std::span<const float> row,
                                       std::span<std::uint8_t> rungs) noexcept;
[[nodiscard]] LadderParams q2tp_place_row(std::span<const float> row, std::span<const float> hw,
                                          std::span<std::uint8_t> rungs) noexcept;

/// The same with a given instruction set; the result does not depend on it.
[[nodiscard]] LadderParams q4tp_converter_row(std::span<const float> row,
                                              std::span<std::uint8_t> rungs,
                                              SimdLevel level) noexcept;
[[nodiscard]] LadderParams q2tp_v1_row(std::span<const float> row, std::span<std::uint8_t> rungs,
                                       SimdLevel level) noexcept;
[[nodiscard]] LadderParams q2tp_place_row(std::span<const float> row, std::span<const float> hw,
                                          std::span<std::uint8_t> rungs, SimdLevel level) noexcept;

/// Byte offsets of the three planes of q4tp (bits = 4) and q2tp (bits = 2): codes, params, rung
/// codes.
struct PlaneLayout {
  std::uint64_t params_offset = 0;
  std::uint64_t rungs_offset = 0;
  std::uint64_t bytes = 0;
  std::int64_t rung_row_bytes = 0;
};
[[nodiscard]] PlaneLayout plane_layout(int bits, std::int64_t rows, std::int64_t cols) noexcept;

/// lo' of the debias rule: lo - log2(clamp(num/den, 0.8, 1.25)); unchanged unless den > 0 and the
/// ratio is finite.
[[nodiscard]] LadderParams unshrink(LadderParams params, double num, double den) noexcept;

}  // namespace cortiq::codec
