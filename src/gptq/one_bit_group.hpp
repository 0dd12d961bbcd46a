// one_bit_group.hpp: one group of 32 columns of one row of q1s or q1t while the sweep passes over
// it: choice of its scale, rounding with feedback inside the group. f64.
#pragma once

#include <array>
#include <cstdint>

#include "group_factor.hpp"

namespace cortiq::gptq {

/// Codes are 0 below the threshold; the scale is a half.
struct OneBitLevels {
  double scale = 0;
  double threshold = 0;
};

struct OneBitGroup {
  const double* x;             ///< [32] corrected weights, elimination order
  const std::uint8_t* masked;  ///< [32] 1: held by the overlay
  const double* overlay;       ///< [32] what the overlay holds there
  const GroupFactor& factor;
  bool ternary = false;
};

/// Closed form: mean magnitude for q1s; for q1t the better of the two rules of gptq.md 8.2 under
/// the weights 1/U_jj^2.
[[nodiscard]] OneBitLevels closed_form_levels(const OneBitGroup& group);
/// The scale of the least loss inside the group, of 20 multiples of the mean magnitude, each with
/// its feedback.
[[nodiscard]] OneBitLevels simulated_levels(const OneBitGroup& group);
/// @param codes  [32] out, 0 under the overlay for q1t
/// @param error  [32] out: (x - q) / U_jj, of masked columns too: what arrived at them is passed on
void round_group(const OneBitGroup& group, OneBitLevels levels, std::int8_t* codes, double* error);

}  // namespace cortiq::gptq
