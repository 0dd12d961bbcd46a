#include "one_bit_group.hpp"

#include <algorithm>
#include <cmath>

#include "cortiq/codec/ladder.hpp"

namespace cortiq::gptq {

namespace {

constexpr int kCandidates = 20;
/// Multiples of the mean magnitude: signs fit best a little below it, ternary codes above it.
constexpr double kFirstSign = 0.50;
constexpr double kSignStep = 0.05;
constexpr double kFirstTernary = 0.60;
constexpr double kTernaryStep = 0.10;
constexpr double kSupport = 0.7;  // of the mean magnitude (gptq.md section 8.2)

using Lanes = std::array<double, kCandidates>;

std::size_t at(int i) { return static_cast<std::size_t>(i); }

double half_scale(double x) { return static_cast<double>(codec::f16_scale(static_cast<float>(x))); }

double mean_magnitude(const OneBitGroup& group) {
  double sum = 0;
  int count = 0;
  for (int j = 0; j < kGroupCols; ++j) {
    if (group.masked[j] != 0) continue;
    sum += std::fabs(group.x[j]);
    ++count;
  }
  return count > 0 ? sum / count : 0.0;
}

double level(double x, OneBitLevels levels) {
  return std::fabs(x) >= levels.threshold ? std::copysign(levels.scale, x) : 0.0;
}

double weighted_error(const OneBitGroup& group, OneBitLevels levels) {
  double sum = 0;
  for (int j = 0; j < kGroupCols; ++j) {
    if (group.masked[j] != 0) continue;
    const double e = (group.x[j] - level(group.x[j], levels)) * group.factor.inverse[at(j)];
    sum += e * e;
  }
  return sum;
}

/// Column j of all candidates: adds the loss and passes the error on to the later columns.
void simulate_column(const OneBitGroup& group, int j, const Lanes& scales, const Lanes& thresholds,
                     std::array<Lanes, kGroupCols>& x, Lanes& loss) {
  const double inverse = group.factor.inverse[at(j)];
  Lanes error;
  for (std::size_t l = 0; l < kCandidates; ++l) {
    const double value = x[at(j)][l];
    const double signed_scale = value >= 0 ? scales[l] : -scales[l];
    const double q = std::fabs(value) >= thresholds[l] ? signed_scale : 0.0;
    error[l] = value - (group.masked[j] != 0 ? group.overlay[j] : q);
    loss[l] += (error[l] * inverse) * (error[l] * inverse);
  }
  const double* ratio = group.factor.ratio.data() + j * kGroupCols;
  for (int k = j + 1; k < kGroupCols; ++k) {
    for (std::size_t l = 0; l < kCandidates; ++l) x[at(k)][l] -= error[l] * ratio[k];
  }
}

}  // namespace

OneBitLevels closed_form_levels(const OneBitGroup& group) {
  const double mean = mean_magnitude(group);
  const double half = half_scale(mean);
  if (!group.ternary) return {half, 0.0};
  const OneBitLevels legacy{half, 0.5 * half};
  OneBitLevels adaptive{half, kSupport * mean};
  double num = 0;
  double den = 0;
  for (int j = 0; j < kGroupCols; ++j) {
    const double magnitude = std::fabs(group.x[j]);
    if (group.masked[j] != 0 || !(magnitude >= adaptive.threshold)) continue;
    const double weight = group.factor.inverse[at(j)] * group.factor.inverse[at(j)];
    num += weight * magnitude;
    den += weight;
  }
  if (den > 0) adaptive.scale = half_scale(num / den);
  return weighted_error(group, adaptive) < weighted_error(group, legacy) ? adaptive : legacy;
}

OneBitLevels simulated_levels(const OneBitGroup& group) {
  const double mean = mean_magnitude(group);
  const double first = group.ternary ? kFirstTernary : kFirstSign;
  const double step = group.ternary ? kTernaryStep : kSignStep;
  Lanes scales{};
  Lanes thresholds{};
  Lanes loss{};
  for (int l = 0; l < kCandidates; ++l) {
    scales[at(l)] = half_scale(mean * (first + step * l));
    thresholds[at(l)] = group.ternary ? 0.5 * scales[at(l)] : 0.0;
  }
  std::array<Lanes, kGroupCols> x;
  for (int j = 0; j < kGroupCols; ++j) x[at(j)].fill(group.x[j]);
  for (int j = 0; j < kGroupCols; ++j) simulate_column(group, j, scales, thresholds, x, loss);
  const auto least = std::min_element(loss.begin(), loss.end());
  const auto best = static_cast<std::size_t>(least - loss.begin());
  return {scales[best], thresholds[best]};
}

void round_group(const OneBitGroup& group, OneBitLevels levels, std::int8_t* codes, double* error) {
  std::array<double, kGroupCols> x;
  std::copy_n(group.x, kGroupCols, x.begin());
  for (int j = 0; j < kGroupCols; ++j) {
    const double value = x[at(j)];
    const bool masked = group.masked[j] != 0;
    const bool live = !(masked && group.ternary) && std::fabs(value) >= levels.threshold;
    codes[j] = static_cast<std::int8_t>(!live ? 0 : value >= 0 ? 1 : -1);
    const double e = value - (masked ? group.overlay[j] : codes[j] * levels.scale);
    error[j] = e * group.factor.inverse[at(j)];
    const double* ratio = group.factor.ratio.data() + j * kGroupCols;
    for (int k = j + 1; k < kGroupCols; ++k) x[at(k)] -= e * ratio[k];
  }
}

}  // namespace cortiq::gptq
