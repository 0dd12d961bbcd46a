// planes.hpp: what the encoders of q4tp and q2tp share: reciprocal scales and the planes of
// parameters and rungs.
#pragma once

#include <cstdint>
#include <span>
#include <vector>

#include "cortiq/codec/ladder.hpp"
#include "encoders.hpp"
#include "scalar_math.hpp"

namespace cortiq::codec {

/// 1/scale of each group, 0 for a zero rung.
inline void inverse_scales(const Ladder& ladder, std::span<const std::uint8_t> rungs,
                           std::vector<float>& out) {
  out.resize(rungs.size());
  for (std::size_t g = 0; g < rungs.size(); ++g) {
    const float s = ladder[rungs[g]];
    out[g] = s > 0.0F ? 1.0F / s : 0.0F;
  }
}

/// Writes parameters and rungs of row r; the payload is zero there.
inline void store_side_planes(Payload& payload, const PlaneLayout& layout, std::int64_t r,
                              LadderParams params, std::span<const std::uint8_t> rungs) noexcept {
  std::uint8_t* stored = bytes_at(payload, static_cast<std::int64_t>(layout.params_offset) + 4 * r);
  store_le(stored, params.lo);
  store_le(stored + 2, params.step);
  std::uint8_t* row =
      bytes_at(payload, static_cast<std::int64_t>(layout.rungs_offset) + r * layout.rung_row_bytes);
  for (std::size_t g = 0; g < rungs.size(); ++g)
    put_rung(row, static_cast<std::int64_t>(g), rungs[g]);
}

}  // namespace cortiq::codec
