// row_ladder.hpp: where the 32 scales of a row lie: the converter's rule, and the two-pass fit to
// the rungs that the sweep uses (gptq.md 1.1, 1.2, section 6; docs/quality.md section 2).
#pragma once

#include <cstdint>
#include <span>

#include "cortiq/codec/ladder.hpp"
#include "cortiq/gptq/options.hpp"

namespace cortiq::gptq {

/// Number of ratios between the lowest and the highest scale.
[[nodiscard]] constexpr int ladder_span(Target target) noexcept {
  return target == Target::kQ4tp ? 31 : 30;
}

/// row: natural order, dead channels zeroed; weights: f32 H_ii by channel; rungs: cols/32 entries
/// or empty.
[[nodiscard]] codec::LadderParams converter_ladder(const SweepOptions& options,
                                                   std::span<const float> row,
                                                   std::span<const float> weights,
                                                   std::span<std::uint8_t> rungs);
/// First pass of the fit: 0.6 below and 0.1 above (log2) what the converter covers. A row of zeros
/// keeps `ordinary`.
[[nodiscard]] codec::LadderParams widened_ladder(Target target, codec::LadderParams ordinary,
                                                 std::span<const float> row);
/// Second pass: from the least to the greatest stored rung that live groups used on `wide`.
[[nodiscard]] codec::LadderParams refitted_ladder(Target target, codec::LadderParams wide,
                                                  int least, int greatest);

[[nodiscard]] codec::Ladder ladder_table(Target target, codec::LadderParams params);
/// False where the weights exceed what a file's scales can hold.
[[nodiscard]] bool ladder_is_finite(codec::LadderParams params);

}  // namespace cortiq::gptq
