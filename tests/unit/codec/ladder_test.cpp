#include "cortiq/codec/ladder.hpp"

#include <gtest/gtest.h>

#include <cmath>
#include <limits>
#include <vector>

#include "cortiq/support/half.hpp"
#include "matrices.hpp"
#include "reference.hpp"

namespace cortiq::codec {
namespace {

TEST(Ladder, LogarithmAndPowerAreExactAtPowersOfTwo) {
  for (int e = -149; e <= 127; ++e) EXPECT_EQ(det_log2(std::ldexp(1.0F, e)), static_cast<float>(e));
  for (int e = -149; e <= 127; ++e) EXPECT_EQ(det_exp2(static_cast<float>(e)), std::ldexp(1.0F, e));
  EXPECT_TRUE(std::isnan(det_log2(-1.0F)));
  EXPECT_EQ(det_log2(0.0F), -std::numeric_limits<float>::infinity());
  EXPECT_EQ(det_exp2(129.0F), std::numeric_limits<float>::infinity());
  EXPECT_EQ(det_exp2(-161.0F), 0.0F);
}

TEST(Ladder, SecondKindStartsWithAnExactZero) {
  const LadderParams p{f32_to_f16(-8.0F), f32_to_f16(0.25F)};
  const Ladder four = q4tp_ladder(p);
  const Ladder two = q2tp_ladder(p);
  EXPECT_EQ(two[0], 0.0F);
  for (std::size_t c = 1; c < kRungs; ++c) EXPECT_EQ(two[c], four[c - 1]);
}

TEST(Ladder, CoveringStepReachesTheTop) {
  for (const float lo : {-14.0F, -9.3F, -2.0F, 3.0F}) {
    for (const float span : {0.0F, 1e-4F, 0.01F, 0.7F, 5.0F, 20.0F}) {
      const std::uint16_t low = f32_to_f16(lo);
      const float step = f16_to_f32(covering_step(low, lo + span, 31));
      EXPECT_GT(step, 0.0F);
      EXPECT_GE(f16_to_f32(low) + 31.0F * step, lo + span);
    }
  }
}

TEST(Ladder, RungsOfAnyPositionSurvivePacking) {
  for (const std::int64_t groups : {1, 2, 7, 8, 33}) {
    std::vector<std::uint8_t> row(static_cast<std::size_t>(rung_row_bytes(groups)));
    for (std::int64_t g = 0; g < groups; ++g)
      put_rung(row.data(), g, static_cast<unsigned>((g * 11 + 3) % 32));
    for (std::int64_t g = 0; g < groups; ++g) EXPECT_EQ(get_rung(row.data(), g), (g * 11 + 3) % 32);
  }
}

TEST(Ladder, UnshrinkLeavesUnusableRatiosAlone) {
  const LadderParams p{0xC800, 0x2000};
  EXPECT_EQ(unshrink(p, 1.0, 0.0), p);
  EXPECT_EQ(unshrink(p, 1.0, std::nan("")), p);
  EXPECT_EQ(unshrink(p, std::numeric_limits<double>::infinity(), 1.0), p);
  EXPECT_EQ(f16_to_f32(unshrink(p, 1.0, 1.0).lo), -8.0F);
  EXPECT_EQ(unshrink(p, 100.0, 1.0), unshrink(p, 1.25, 1.0));
  EXPECT_EQ(unshrink(p, -5.0, 1.0), unshrink(p, 0.8, 1.0));
}

TEST(LadderRow, MatchesThePlainReferenceAndUnitWeightsMeanNone) {
  for (std::uint32_t seed = 0; seed < 16; ++seed) {
    const test::TestMatrix m = test::make_matrix(seed, 1, 32 * 19);
    const std::span<const float> row(m.values);
    std::vector<std::uint8_t> rungs(19);
    const test::RowChoice four = test::q4tp_row(row.data(), 19, true);
    EXPECT_EQ(q4tp_converter_row(row, rungs), four.params);
    EXPECT_TRUE(std::equal(rungs.begin(), rungs.end(), four.rungs.begin()));
    EXPECT_EQ(q4tp_converter_row(row, {}), four.params);
    const test::RowChoice two = test::q2tp_placed_row(row.data(), 19);
    const std::vector<float> ones(row.size(), 1.0F);
    EXPECT_EQ(q2tp_place_row(row, ones, rungs), two.params);
    EXPECT_TRUE(std::equal(rungs.begin(), rungs.end(), two.rungs.begin()));
  }
}

}  // namespace
}  // namespace cortiq::codec
