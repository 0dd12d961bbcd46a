#include "row_ladder.hpp"

#include <algorithm>
#include <cmath>
#include <limits>

#include "cortiq/support/half.hpp"
#include "kernels.hpp"

namespace cortiq::gptq {

namespace {

constexpr float kWidenBelow = 0.6F;  // log2 units, docs/quality.md section 2
constexpr float kWidenAbove = 0.1F;
constexpr float kQ4FullScale = 7.0F;

struct Range {
  float lo = std::numeric_limits<float>::infinity();
  float hi = -std::numeric_limits<float>::infinity();
};

/// log2 of the converter's q4tp scales of the live groups; lo > hi if there is none.
Range converter_range(std::span<const float> row) {
  Range range;
  for (std::size_t first = 0; first < row.size(); first += kGroupCols) {
    float absmax = 0;
    for (const float w : row.subspan(first, kGroupCols)) absmax = std::max(absmax, std::fabs(w));
    if (absmax == 0) continue;
    const float log_scale = codec::det_log2(codec::f16_scale(absmax / kQ4FullScale));
    range.lo = std::min(range.lo, log_scale);
    range.hi = std::max(range.hi, log_scale);
  }
  return range;
}

codec::LadderParams covering(float lo, float top, int span) {
  codec::LadderParams params;
  params.lo = f32_to_f16(lo);
  params.step = codec::covering_step(params.lo, top, span);
  return params;
}

}  // namespace

codec::LadderParams converter_ladder(const SweepOptions& options, std::span<const float> row,
                                     std::span<const float> weights,
                                     std::span<std::uint8_t> rungs) {
  if (options.target == Target::kQ4tp) return codec::q4tp_converter_row(row, rungs);
  if (options.rule == Q2tpRule::kCortiq) return codec::q2tp_v1_row(row, rungs);
  return codec::q2tp_place_row(row, weights, rungs);
}

codec::LadderParams widened_ladder(Target target, codec::LadderParams ordinary,
                                   std::span<const float> row) {
  const Range range = converter_range(row);
  if (range.lo > range.hi) return ordinary;
  const int span = ladder_span(target);
  if (target == Target::kQ4tp)
    return covering(range.lo - kWidenBelow, range.hi + kWidenAbove, span);
  const float lo = f16_to_f32(ordinary.lo);
  const float top = lo + static_cast<float>(span) * f16_to_f32(ordinary.step);
  return covering(lo - kWidenBelow, top + kWidenAbove, span);
}

codec::LadderParams refitted_ladder(Target target, codec::LadderParams wide, int least,
                                    int greatest) {
  const int first = target == Target::kQ4tp ? 0 : 1;  // stored rung of the lowest scale
  const float lo = f16_to_f32(wide.lo);
  const float step = f16_to_f32(wide.step);
  return covering(lo + step * static_cast<float>(least - first),
                  lo + step * static_cast<float>(greatest - first), ladder_span(target));
}

codec::Ladder ladder_table(Target target, codec::LadderParams params) {
  return target == Target::kQ4tp ? codec::q4tp_ladder(params) : codec::q2tp_ladder(params);
}

bool ladder_is_finite(codec::LadderParams params) {
  const codec::Ladder table = codec::q4tp_ladder(params);
  return std::isfinite(table.back());
}

}  // namespace cortiq::gptq
