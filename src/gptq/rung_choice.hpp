// rung_choice.hpp: the rung of one group for the 16 rows of a slab, when the sweep reaches it.
// Sources: gptq.md sections 4 and 6 (window, full), docs/quality.md section 1 (simulated loss,
// coarse to fine).
#pragma once

#include <array>
#include <cstdint>

#include "cortiq/support/cpu.hpp"
#include "group_factor.hpp"
#include "kernels.hpp"

namespace cortiq::gptq {

enum class RungSearch {
  kWindow,     ///< nominal-2..nominal+1, H_ii-weighted rounding error
  kFull,       ///< all rungs, H_ii-weighted rounding error
  kSimulated,  ///< exact in-group loss, every third rung, then the four neighbours of the best
  kSimulatedFull,  ///< exact in-group loss, all rungs
};

/// Ladders of the rows of a slab.
struct SlabLadders {
  const float* table;  ///< [16][32], rung c of row r at [r*32 + c]
  const float* lo;     ///< [16] log2 of the lowest rung
  const float* step;   ///< [16]
};

/// A group whose corrected weights are all zero has no rung.
inline constexpr std::uint8_t kNoRung = 255;

/// x: [32][16] corrected weights. Ties go to the lower rung; if no candidate has a finite loss, the
/// nominal rung.
[[nodiscard]] std::array<std::uint8_t, kSlabRows> choose_rungs(RungSearch search, bool four_bit,
                                                               const double* x,
                                                               const SlabLadders& ladders,
                                                               const GroupFactor& group,
                                                               SimdLevel simd);

}  // namespace cortiq::gptq
