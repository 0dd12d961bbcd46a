#include "ladder_rows.hpp"

#include <algorithm>
#include <array>
#include <cmath>
#include <limits>

#include "cortiq/support/error.hpp"
#include "log2_table.hpp"
#include "scalar_math.hpp"

namespace cortiq::codec {

namespace {

constexpr float kInfinity = std::numeric_limits<float>::infinity();
/// Tops of the ladder that are tried, as shares of the range of the row.
constexpr std::array<float, 4> kTopShares = {1.0F, 0.9F, 0.8F, 0.7F};
constexpr int kQ4Above = kRungs - 1;  ///< rungs above the lowest
constexpr int kQ2Above = kRungs - 2;

constexpr std::size_t kMultiples = 31;
constexpr std::array<float, kMultiples> kPlaceMultiples = [] {
  std::array<float, kMultiples> table{};
  for (std::size_t k = 0; k < kMultiples; ++k) {
    table[k] = static_cast<float>(static_cast<double>(300 + 25 * k) / 1000.0);
  }
  return table;
}();

float share_of_range(std::uint16_t lo, LogRange range, float share) noexcept {
  const float low = f16_to_f32(lo);
  return low + (range.hi - low) * share;
}

}  // namespace

void LadderRow::start(std::span<const float> row) {
  CORTIQ_ASSERT(row.size() % kGroup == 0);
  const std::size_t count = row.size() / kGroup;
  row_ = row;
  rungs_.assign(count, 0);
  nominal_.resize(count);
  largest_.resize(count);
  scales_.resize(count);
  logs_.resize(count);
  errors_.resize(count);
  kernels_.abs_max(row.data(), largest_.data(), groups());
}

LogRange LadderRow::measure(std::span<const float> scales) {
  LogRange range{kInfinity, -kInfinity};
  for (std::size_t g = 0; g < logs_.size(); ++g) {
    logs_[g] = scale_log2(f16_scale_bits(scales[g]));
    if (dead(g)) continue;
    range.lo = std::min(range.lo, logs_[g]);
    range.hi = std::max(range.hi, logs_[g]);
  }
  // Without a live group the range is that of the least scale.
  if (range.hi < range.lo) range.lo = range.hi = scale_log2(kTinyHalf);
  return range;
}

void LadderRow::nominal_rungs(LadderParams params, int lowest) {
  const float low = f16_to_f32(params.lo);
  const float step = f16_to_f32(params.step);
  const float last = static_cast<float>(kRungs - 1 - lowest);
  for (std::size_t g = 0; g < nominal_.size(); ++g) {
    const int above = step > 0.0F ? round_clamp((logs_[g] - low) / step, 0.0F, last) : 0;
    nominal_[g] = static_cast<std::uint8_t>(lowest + above);
  }
}

void LadderRow::clear_dead_rungs() noexcept {
  for (std::size_t g = 0; g < rungs_.size(); ++g) {
    if (dead(g)) rungs_[g] = 0;
  }
}

void LadderRow::q4tp(std::span<const float> row, bool search) {
  start(row);
  for (std::size_t g = 0; g < scales_.size(); ++g) scales_[g] = largest_[g] / 7.0F;
  const LogRange range = measure(scales_);
  params_.lo = f32_to_f16(range.lo);
  params_.step = covering_step(params_.lo, range.hi, kQ4Above);
  nominal_rungs(params_, 0);
  if (search && f16_to_f32(params_.step) > 0.0F) {
    const Ladder ladder = q4tp_ladder(params_);
    kernels_.q4_window(row.data(), ladder.data(), nominal_.data(), rungs_.data(), groups());
  } else {
    rungs_ = nominal_;
  }
  clear_dead_rungs();
}

float LadderRow::probe_v1(LadderParams params) {
  const Ladder ladder = q2tp_ladder(params);
  nominal_rungs(params, 1);
  kernels_.q2_window(row_.data(), ladder.data(), nominal_.data(), 2, errors_.data(), rungs_.data(),
                     groups());
  float error = 0.0F;
  for (std::size_t g = 0; g < errors_.size(); ++g) {
    if (!dead(g)) error = error + errors_[g];
  }
  return error;
}

LadderParams LadderRow::best_v1_top(LogRange range) {
  const std::uint16_t lo = f32_to_f16(range.lo);
  LadderParams best{lo, covering_step(lo, range.hi, kQ2Above)};
  if (!(range.hi > f16_to_f32(lo))) return best;
  float best_error = kInfinity;
  for (const float share : kTopShares) {
    const LadderParams candidate{lo, covering_step(lo, share_of_range(lo, range, share), kQ2Above)};
    const float error = probe_v1(candidate);
    if (!(error < best_error)) continue;
    best_error = error;
    best = candidate;
  }
  return best;
}

void LadderRow::q2tp_v1(std::span<const float> row, bool search) {
  start(row);
  for (std::size_t g = 0; g < scales_.size(); ++g) scales_[g] = largest_[g] / 1.5F;
  const LogRange range = measure(scales_);
  const std::uint16_t lo = f32_to_f16(range.lo);
  params_ = search ? best_v1_top(range) : LadderParams{lo, covering_step(lo, range.hi, kQ2Above)};
  nominal_rungs(params_, 1);
  if (search) {
    const Ladder ladder = q2tp_ladder(params_);
    kernels_.q2_window(row.data(), ladder.data(), nominal_.data(), 1, errors_.data(), rungs_.data(),
                       groups());
  } else {
    rungs_ = nominal_;
  }
  clear_dead_rungs();
}

void LadderRow::q2tp_place(std::span<const float> row, std::span<const float> hw) {
  start(row);
  const float* weights = hw.empty() ? nullptr : hw.data();
  for (float& base : largest_) base = base / 1.5F;  // still zero for dead groups only
  kernels_.q2_place(row.data(), weights, largest_.data(), kPlaceMultiples.data(), scales_.data(),
                    groups());
  const LogRange range = measure(scales_);
  const std::uint16_t lo = f32_to_f16(range.lo);
  std::vector<std::uint8_t> candidate(rungs_.size());
  double best_error = 0.0;
  for (std::size_t t = 0; t < kTopShares.size(); ++t) {
    const LadderParams tried{lo,
                             covering_step(lo, share_of_range(lo, range, kTopShares[t]), kQ2Above)};
    const Ladder ladder = q2tp_ladder(tried);
    kernels_.q2_rungs(row.data(), weights, ladder.data(), errors_.data(), candidate.data(),
                      groups());
    double error = 0.0;
    for (std::size_t g = 0; g < errors_.size(); ++g) {
      if (!dead(g)) error = error + static_cast<double>(errors_[g]);
    }
    if (t > 0 && !(error < best_error)) continue;
    best_error = error;
    params_ = tried;
    rungs_.swap(candidate);
  }
  clear_dead_rungs();
}

LadderParams q4tp_converter_row(std::span<const float> row, std::span<std::uint8_t> rungs,
                                SimdLevel level) noexcept {
  LadderRow work(level);
  work.q4tp(row, !rungs.empty());
  if (!rungs.empty()) std::ranges::copy(work.rungs(), rungs.begin());
  return work.params();
}

LadderParams q2tp_v1_row(std::span<const float> row, std::span<std::uint8_t> rungs,
                         SimdLevel level) noexcept {
  LadderRow work(level);
  work.q2tp_v1(row, true);
  if (!rungs.empty()) std::ranges::copy(work.rungs(), rungs.begin());
  return work.params();
}

LadderParams q2tp_place_row(std::span<const float> row, std::span<const float> hw,
                            std::span<std::uint8_t> rungs, SimdLevel level) noexcept {
  CORTIQ_ASSERT(hw.size() == row.size());
  LadderRow work(level);
  work.q2tp_place(row, hw);
  if (!rungs.empty()) std::ranges::copy(work.rungs(), rungs.begin());
  return work.params();
}

LadderParams q4tp_converter_row(std::span<const float> row,
                                std::span<std::uint8_t> rungs) noexcept {
  return q4tp_converter_row(row, rungs, detect_simd());
}
LadderParams q2tp_v1_row(std::span<const float> row, std::span<std::uint8_t> rungs) noexcept {
  return q2tp_v1_row(row, rungs, detect_simd());
}
LadderParams q2tp_place_row(std::span<const float> row, std::span<const float> hw,
                            std::span<std::uint8_t> rungs) noexcept {
  return q2tp_place_row(row, hw, rungs, detect_simd());
}

}  // namespace cortiq::codec
