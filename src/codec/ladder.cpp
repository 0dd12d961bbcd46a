#include "cortiq/codec/ladder.hpp"

#include <algorithm>
#include <bit>
#include <cmath>
#include <limits>

#include "cortiq/support/half.hpp"
#include "scalar_math.hpp"

namespace cortiq::codec {

namespace {

constexpr int kSeriesTerms = 24;  // codecs.md section 2
constexpr std::uint64_t kLog2E = 0x3FF71547652B82FEULL;
constexpr std::uint64_t kLn2 = 0x3FE62E42FEFA39EFULL;
constexpr int kMaxStepWalk = 64;

template <typename Exp2>
Ladder chain(LadderParams params, Exp2 exp2) noexcept {
  Ladder ladder;
  const float ratio = exp2(f16_to_f32(params.step));
  ladder[0] = exp2(f16_to_f32(params.lo));
  for (std::size_t c = 1; c < ladder.size(); ++c) ladder[c] = ladder[c - 1] * ratio;
  return ladder;
}

Ladder with_zero_rung(const Ladder& ladder) noexcept {
  Ladder shifted;
  shifted[0] = 0.0F;
  std::copy(ladder.begin(), ladder.end() - 1, shifted.begin() + 1);
  return shifted;
}

float platform_exp2(float y) noexcept { return std::exp2(y); }

}  // namespace

float det_log2(float x) noexcept {
  if (std::isnan(x) || x < 0.0F) return std::numeric_limits<float>::quiet_NaN();
  if (x == 0.0F) return -std::numeric_limits<float>::infinity();
  if (std::isinf(x)) return x;
  // Every f32 is a normal f64, so the exponent field is exact for subnormal x too.
  const std::uint64_t bits = std::bit_cast<std::uint64_t>(static_cast<double>(x));
  const int exponent = static_cast<int>((bits >> 52) & 0x7FFU) - 1023;
  const double m = std::bit_cast<double>((bits & 0xFFFFFFFFFFFFFULL) | (1023ULL << 52));
  const double t = (m - 1.0) / (m + 1.0);
  const double t2 = t * t;
  double term = t;
  double sum = 0.0;
  double k = 1.0;
  for (int i = 0; i < kSeriesTerms; ++i) {
    sum = sum + term / k;
    term = term * t2;
    k += 2.0;
  }
  const double ln = 2.0 * sum;
  return static_cast<float>(static_cast<double>(exponent) + ln * std::bit_cast<double>(kLog2E));
}

float det_exp2(float y) noexcept {
  if (std::isnan(y)) return y;
  if (y > 128.0F) return std::numeric_limits<float>::infinity();
  if (y < -160.0F) return 0.0F;
  const double wide = static_cast<double>(y);
  const double n = std::floor(wide);
  const double z = (wide - n) * std::bit_cast<double>(kLn2);
  double term = 1.0;
  double sum = 1.0;
  for (int k = 1; k <= kSeriesTerms; ++k) {
    term = term * (z / static_cast<double>(k));
    sum = sum + term;
  }
  const std::uint64_t biased = static_cast<std::uint64_t>(static_cast<int>(n) + 1023);
  return static_cast<float>(sum * std::bit_cast<double>(biased << 52));
}

float f16_scale(float x) noexcept { return f16_to_f32(f16_scale_bits(x)); }

Ladder q4tp_ladder(LadderParams params) noexcept { return chain(params, det_exp2); }
Ladder q4tp_ladder_runtime(LadderParams params) noexcept { return chain(params, platform_exp2); }
Ladder q2tp_ladder(LadderParams params) noexcept { return with_zero_rung(q4tp_ladder(params)); }
Ladder q2tp_ladder_runtime(LadderParams params) noexcept {
  return with_zero_rung(q4tp_ladder_runtime(params));
}

std::uint16_t covering_step(std::uint16_t lo, float top, int rungs_above) noexcept {
  const float low = f16_to_f32(lo);
  const float steps = static_cast<float>(rungs_above);
  std::uint16_t step = f32_to_f16(std::fmax(top - low, 0.0F) / steps);
  for (int i = 0; i < kMaxStepWalk; ++i) {
    const float value = f16_to_f32(step);
    if (value > 0.0F && low + steps * value >= top) break;
    ++step;
  }
  return step;
}

void put_rung(std::uint8_t* row, std::int64_t group, unsigned rung) noexcept {
  const std::int64_t bit = 5 * group;
  const unsigned shift = static_cast<unsigned>(bit % 8);
  std::uint8_t* byte = row + bit / 8;
  byte[0] = static_cast<std::uint8_t>(byte[0] | (rung << shift));
  if (shift > 3) byte[1] = static_cast<std::uint8_t>(byte[1] | (rung >> (8 - shift)));
}

unsigned get_rung(const std::uint8_t* row, std::int64_t group) noexcept {
  const std::int64_t bit = 5 * group;
  const unsigned shift = static_cast<unsigned>(bit % 8);
  const std::uint8_t* byte = row + bit / 8;
  unsigned value = static_cast<unsigned>(byte[0]) >> shift;
  if (shift > 3) value |= static_cast<unsigned>(byte[1]) << (8 - shift);
  return value & 31U;
}

PlaneLayout plane_layout(int bits, std::int64_t rows, std::int64_t cols) noexcept {
  const auto r = static_cast<std::uint64_t>(rows);
  const auto groups = static_cast<std::uint64_t>(cols / kGroup);
  PlaneLayout layout;
  layout.rung_row_bytes = rung_row_bytes(cols / kGroup);
  layout.params_offset = r * groups * static_cast<std::uint64_t>(4 * bits);
  layout.rungs_offset = layout.params_offset + 4 * r;
  layout.bytes = layout.rungs_offset + r * static_cast<std::uint64_t>(layout.rung_row_bytes);
  return layout;
}

LadderParams unshrink(LadderParams params, double num, double den) noexcept {
  if (!(den > 0.0)) return params;
  const double ratio = num / den;
  if (!std::isfinite(ratio)) return params;
  const float bounded = static_cast<float>(std::clamp(ratio, 0.8, 1.25));
  const double lo = static_cast<double>(f16_to_f32(params.lo));
  params.lo = f32_to_f16(static_cast<float>(lo - static_cast<double>(det_log2(bounded))));
  return params;
}

}  // namespace cortiq::codec
