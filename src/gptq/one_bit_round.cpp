// one_bit_round.cpp: q1s and q1t without feedback (gptq.md sections 8.1.3 and 8.2), in f32 and in
// the order of the existing tool, so that its payloads come out.
#include <array>
#include <cmath>

#include "cortiq/codec/ladder.hpp"
#include "cortiq/support/half.hpp"
#include "kernels.hpp"
#include "one_bit_codes.hpp"

namespace cortiq::gptq {

namespace {

constexpr std::int64_t kRowGrain = 8;
constexpr float kSupport = 0.7F;  ///< of the mean magnitude: the adaptive threshold of q1t
constexpr double kLeastFactor = 0.5;
constexpr double kMostFactor = 2.0;
constexpr double kLeastEnergy = 1e-20;

std::size_t at(std::int64_t i) { return static_cast<std::size_t>(i); }

/// One group of a row: weights, channel weights, and which of them the overlay takes.
struct Group {
  const float* w;
  const double* weights;
  const std::uint8_t* masked;
};

/// Codes are 0 below the threshold.
struct Levels {
  float scale = 0;
  float threshold = 0;
};

float mean_magnitude(const Group& group) {
  float sum = 0;
  int count = 0;
  for (int i = 0; i < kGroupCols; ++i) {
    if (group.masked[i] != 0) continue;
    sum = sum + std::fabs(group.w[i]);
    ++count;
  }
  return count > 0 ? sum / static_cast<float>(count) : 0.0F;
}

double weighted_error(const Group& group, Levels levels) {
  double sum = 0;
  for (int i = 0; i < kGroupCols; ++i) {
    if (group.masked[i] != 0) continue;
    const bool live = std::fabs(group.w[i]) >= levels.threshold;
    const float q = live ? std::copysign(levels.scale, group.w[i]) : 0.0F;
    const double e = static_cast<double>(group.w[i]) - static_cast<double>(q);
    sum = sum + group.weights[i] * e * e;
  }
  return sum;
}

Levels ternary_levels(const Group& group) {
  const float mean = mean_magnitude(group);
  const float half = codec::f16_scale(mean);
  const Levels legacy{half, 0.5F * half};
  Levels adaptive{legacy.scale, kSupport * mean};
  double num = 0;
  double den = 0;
  for (int i = 0; i < kGroupCols; ++i) {
    const float magnitude = std::fabs(group.w[i]);
    if (group.masked[i] != 0 || !(magnitude >= adaptive.threshold)) continue;
    num = num + group.weights[i] * static_cast<double>(magnitude);
    den = den + group.weights[i];
  }
  if (den > 0) adaptive.scale = codec::f16_scale(static_cast<float>(num / den));
  return weighted_error(group, adaptive) < weighted_error(group, legacy) ? adaptive : legacy;
}

/// The factor of all scales of a row that fits it best under the channel weights.
float row_factor(const float* w, const std::int8_t* codes, const float* scales,
                 std::span<const double> weights) {
  double num = 0;
  double den = 0;
  for (std::size_t c = 0; c < weights.size(); ++c) {
    if (codes[c] == 0) continue;
    const double q = codes[c] * static_cast<double>(scales[c / kGroupCols]);
    num = num + q * static_cast<double>(w[c]) * weights[c];
    den = den + q * q * weights[c];
  }
  return den > kLeastEnergy
             ? static_cast<float>(std::clamp(num / den, kLeastFactor, kMostFactor))
             : 1.0F;
}

void round_row(const float* w, std::span<const double> weights, Target target, bool row_rescale,
               std::int64_t row, OneBitCodes& codes) {
  const std::int64_t group_count = codes.cols / kGroupCols;
  std::vector<std::uint8_t> masked(at(codes.cols), 0);
  std::size_t entry = codes.mask.row_begin[at(row)];
  for (const std::uint32_t c : codes.mask.row(row)) {
    masked[c] = 1;
    codes.overlay[entry++] = f32_to_f16(w[c]);
  }
  std::int8_t* out = codes.codes.data() + row * codes.cols;
  std::vector<float> scales(at(group_count));
  for (std::int64_t g = 0; g < group_count; ++g) {
    const std::int64_t first = g * kGroupCols;
    const Group group{w + first, weights.data() + first, masked.data() + first};
    const Levels levels = target == Target::kQ1s
                              ? Levels{codec::f16_scale(mean_magnitude(group)), 0}
                              : ternary_levels(group);
    scales[at(g)] = levels.scale;
    for (std::int64_t c = first; c < first + kGroupCols; ++c) {
      const bool hidden = target == Target::kQ1t && masked[at(c)] != 0;
      const bool live = !hidden && std::fabs(w[c]) >= levels.threshold;
      out[c] = static_cast<std::int8_t>(!live ? 0 : w[c] >= 0 ? 1 : -1);
    }
  }
  const bool rescale = target == Target::kQ1t && row_rescale;
  const float factor = rescale ? row_factor(w, out, scales.data(), weights) : 1.0F;
  for (std::int64_t g = 0; g < group_count; ++g)
    codes.scales[at(row * group_count + g)] = f32_to_f16(scales[at(g)] * factor);
}

}  // namespace

void round_rows(ConstMatrixView<float> w, std::span<const double> weights, Target target,
                bool row_rescale, OneBitCodes& codes, Pool& pool) {
  pool.for_ranges(w.rows(), kRowGrain, [&](std::int64_t begin, std::int64_t end) {
    for (std::int64_t r = begin; r < end; ++r)
      round_row(w.row(r), weights, target, row_rescale, r, codes);
  });
}

std::vector<std::byte> round_one_bit(ConstMatrixView<float> w, Target target,
                                     const OneBitOptions& options, Pool& pool) {
  CORTIQ_ASSERT(is_one_bit(target) && w.cols() % kGroupCols == 0);
  check_one_bit_shape(target, w.rows(), w.cols());
  const std::vector<float> rms(at(w.cols()), 1.0F);
  const std::vector<double> weights(at(w.cols()), 1.0);
  OneBitCodes codes(w.rows(), w.cols(), choose_overlay(w, rms, options));
  round_rows(w, weights, target, options.row_rescale, codes, pool);
  codes.check_finite(target);
  return pack_one_bit(codes, target);
}

}  // namespace cortiq::gptq
