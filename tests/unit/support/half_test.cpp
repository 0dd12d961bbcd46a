// Conversions of codecs.md section 1, by the spec's own examples and by an independent reference.
#include "cortiq/support/half.hpp"

#include <gtest/gtest.h>

#include <bit>
#include <cmath>
#include <cstdint>
#include <limits>

namespace cortiq {
namespace {

constexpr float kInfinity = std::numeric_limits<float>::infinity();

/// Value of a finite half, from its fields and in double.
double half_value(std::uint16_t half) {
  const int exponent = (half >> 10) & 31;
  const int mantissa = half & 1023;
  const double magnitude =
      exponent == 0 ? std::ldexp(mantissa, -24) : std::ldexp(1024 + mantissa, exponent - 25);
  return (half & 0x8000) != 0 ? -magnitude : magnitude;
}

bool is_nan_half(std::uint32_t half) { return (half & 0x7FFFU) > 0x7C00U; }

TEST(Half, EveryFiniteHalfWidensToItsExactValueAndBack) {
  for (std::uint32_t bits = 0; bits <= 0xFFFF; ++bits) {
    const auto half = static_cast<std::uint16_t>(bits);
    if ((bits & 0x7C00U) == 0x7C00U) continue;
    const float wide = f16_to_f32(half);
    ASSERT_EQ(static_cast<double>(wide), half_value(half)) << bits;
    ASSERT_EQ(std::signbit(wide), (bits & 0x8000U) != 0) << bits;
    ASSERT_EQ(f32_to_f16(wide), half) << bits;
  }
}

TEST(Half, InfinitiesAndNansKeepTheirClass) {
  for (std::uint32_t bits = 0; bits <= 0xFFFF; ++bits) {
    if ((bits & 0x7C00U) != 0x7C00U) continue;
    const auto half = static_cast<std::uint16_t>(bits);
    const float wide = f16_to_f32(half);
    if (!is_nan_half(bits)) {
      ASSERT_TRUE(std::isinf(wide));
      ASSERT_EQ(f32_to_f16(wide), half);
      continue;
    }
    // Widening keeps the payload; narrowing makes the quiet NaN of the format.
    ASSERT_EQ(std::bit_cast<std::uint32_t>(wide) & 0x7FFFFFU, (bits & 0x3FFU) << 13) << bits;
    ASSERT_EQ(f32_to_f16(wide), (bits & 0x8000U) | 0x7E00U) << bits;
  }
}

TEST(Half, SubnormalTiesRoundUpInMagnitude) {
  EXPECT_EQ(f32_to_f16(0x1p-25F), 0x0001);
  EXPECT_EQ(f32_to_f16(-0x1p-25F), 0x8001);
  EXPECT_EQ(f32_to_f16(1.5F * 0x1p-23F), 0x0003);  // exact, no tie
  EXPECT_EQ(f32_to_f16(2.5F * 0x1p-24F), 0x0003);
  EXPECT_EQ(f32_to_f16(std::nextafter(0x1p-25F, 0.0F)), 0x0000);
  for (int k = 0; k < 1023; ++k) {
    const float tie = static_cast<float>(std::ldexp(2 * k + 1, -25));
    ASSERT_EQ(f32_to_f16(tie), k + 1) << k;
    ASSERT_EQ(f32_to_f16(std::nextafter(tie, 0.0F)), k) << k;
  }
}

TEST(Half, LargestSubnormalCarriesIntoTheSmallestNormal) {
  EXPECT_EQ(f32_to_f16(static_cast<float>(std::ldexp(2047, -25))), 0x0400);
}

TEST(Half, NormalTiesRoundToEven) {
  for (std::uint32_t bits = 0x0400; bits < 0x7BFF; ++bits) {
    const double low = half_value(static_cast<std::uint16_t>(bits));
    const double high = half_value(static_cast<std::uint16_t>(bits + 1));
    const float tie = static_cast<float>((low + high) / 2);
    ASSERT_EQ(f32_to_f16(tie), (bits & 1U) == 0 ? bits : bits + 1) << bits;
    ASSERT_EQ(f32_to_f16(std::nextafter(tie, 0.0F)), bits);
    ASSERT_EQ(f32_to_f16(std::nextafter(tie, kInfinity)), bits + 1);
  }
}

TEST(Half, OverflowBeginsAt65520) {
  EXPECT_EQ(f32_to_f16(65519.0F), 0x7BFF);
  EXPECT_EQ(f32_to_f16(65520.0F), 0x7C00);
  EXPECT_EQ(f32_to_f16(-65520.0F), 0xFC00);
  EXPECT_EQ(f32_to_f16(std::numeric_limits<float>::max()), 0x7C00);
}

TEST(Half, TinyValuesBecomeSignedZero) {
  EXPECT_EQ(f32_to_f16(std::numeric_limits<float>::denorm_min()), 0x0000);
  EXPECT_EQ(f32_to_f16(-0x1p-30F), 0x8000);
  EXPECT_EQ(f32_to_f16(-0.0F), 0x8000);
}

TEST(Bfloat16, EveryValueRoundTrips) {
  for (std::uint32_t bits = 0; bits <= 0xFFFF; ++bits) {
    const float wide = bf16_to_f32(static_cast<std::uint16_t>(bits));
    ASSERT_EQ(std::bit_cast<std::uint32_t>(wide), bits << 16);
    if (std::isnan(wide)) {
      ASSERT_TRUE(std::isnan(bf16_to_f32(f32_to_bf16(wide)))) << bits;
    } else {
      ASSERT_EQ(f32_to_bf16(wide), bits);
    }
  }
}

TEST(Bfloat16, RoundsToNearestEven) {
  EXPECT_EQ(f32_to_bf16(std::bit_cast<float>(0x3F808000U)), 0x3F80);  // tie, even below
  EXPECT_EQ(f32_to_bf16(std::bit_cast<float>(0x3F818000U)), 0x3F82);  // tie, even above
  EXPECT_EQ(f32_to_bf16(std::bit_cast<float>(0x3F808001U)), 0x3F81);
  EXPECT_EQ(f32_to_bf16(std::bit_cast<float>(0x3F817FFFU)), 0x3F81);
  EXPECT_EQ(f32_to_bf16(std::numeric_limits<float>::max()), 0x7F80);
}

TEST(Bfloat16, NanWhoseHighBitsAreZeroStaysNan) {
  EXPECT_TRUE(std::isnan(bf16_to_f32(f32_to_bf16(std::bit_cast<float>(0x7F800001U)))));
  EXPECT_TRUE(std::isnan(bf16_to_f32(f32_to_bf16(std::bit_cast<float>(0xFFFFFFFFU)))));
}

}  // namespace
}  // namespace cortiq
