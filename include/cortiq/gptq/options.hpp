// options.hpp: the free choices of the GPTQ algorithm (design: docs/quality.md; facts: gptq.md).
#pragma once

#include <cstdint>
#include <optional>
#include <string_view>

namespace cortiq::gptq {

/// Order in which columns are eliminated. Codes are always stored at their natural places.
enum class Order {
  kNatural,
  kGroup,  ///< groups by descending sum of H_ii, channels inside a group by descending H_ii
  kAct,    ///< all channels by descending H_ii; rungs fixed beforehand
};
/// How the scale of a group is chosen when the sweep reaches it.
enum class Rung {
  kDiag,  ///< H_ii-weighted rounding error, window around the nominal rung (the existing tool)
  kSim,   ///< exact in-group loss, simulated for the rungs, coarse to fine
  kAll,   ///< the same for every rung
};
/// How a row's ladder is placed.
enum class LadderFit {
  kConverter,  ///< as rounding does
  kFit,        ///< two passes: widen, sweep, refit to the rungs used, sweep again
};
enum class Target { kQ4tp, kQ2tp, kQ1s, kQ1t };
/// Signs or ternary codes with a scale per group and an overlay of halves: no ladders (one_bit.hpp).
[[nodiscard]] constexpr bool is_one_bit(Target target) {
  return target == Target::kQ1s || target == Target::kQ1t;
}
enum class Q2tpRule { kPlaced, kCortiq };

/// Choices of q1s and q1t alone (gptq.md section 8).
struct OneBitOptions {
  double keep = 0.01;        ///< share of the weights kept as halves, 0 to 0.25
  bool column_mask = false;  ///< they are whole channels instead of single weights
  bool row_rescale = true;   ///< q1t: one factor for the scales of a row that fits it best; with
                             ///< feedback it needs FoldOptions::keep_damped
  bool feedback = true;      ///< false: rounding by channel energies, no feedback
  bool operator==(const OneBitOptions&) const = default;
};

struct SweepOptions {
  Target target = Target::kQ4tp;
  Order order = Order::kGroup;
  Rung rung = Rung::kSim;
  LadderFit ladder = LadderFit::kFit;
  Q2tpRule rule = Q2tpRule::kPlaced;
  bool debias = false;
  int polish = 0;  ///< passes of coordinate descent after the sweep; needs FoldOptions::keep_damped
  bool group_moves = false;  ///< q4tp, q2tp: each pass first moves whole groups, rungs included
  bool row_scale = false;    ///< q4tp, q2tp: after the first pass rows get their best scale
  OneBitOptions one_bit = {};
  bool operator==(const SweepOptions&) const = default;
};

/// What devices do not do: the fold then stays on the host too (FoldOptions::host_only).
[[nodiscard]] constexpr bool needs_host(const SweepOptions& options) {
  return is_one_bit(options.target) || options.row_scale;
}

struct FoldOptions {
  double lambda = 0.01;  ///< relative damping; negative = 0
  std::optional<double> base =
      std::nullopt;  ///< damping unit; default: mean of H_ii over live channels (at least 1e-12)
  Order order = Order::kGroup;
  bool keep_damped =
      false;  ///< keep H_d in elimination order for SweepOptions::polish (n^2 f64 more)
  bool host_only = false;  ///< a sweep that follows is not done on devices (needs_host)
};

}  // namespace cortiq::gptq
