#include "cortiq/codec/codec.hpp"

#include <gtest/gtest.h>

#include <limits>

#include "cortiq/codec/decode.hpp"
#include "cortiq/codec/ladder.hpp"
#include "cortiq/support/half.hpp"
#include "matrices.hpp"
#include "reference.hpp"

namespace cortiq::codec {
namespace {

using test::make_matrix;
using test::TestMatrix;

constexpr Codec kAll[] = {Codec::kF32,  Codec::kF16,     Codec::kBf16,    Codec::kQ8Row,
                          Codec::kQ82f, Codec::kQ4Block, Codec::kQ4Tiled, Codec::kQ4tp,
                          Codec::kQ2tp, Codec::kQ1,      Codec::kQ1p,     Codec::kQ1s,
                          Codec::kQ1t,  Codec::kVbit,    Codec::kMxfp4};
constexpr SimdLevel kLevels[] = {SimdLevel::kPortable, SimdLevel::kAvx2, SimdLevel::kAvx512};

/// Shapes with one row, one group, a number of groups that is no multiple of any vector width, more
/// than 256 rows.
constexpr std::int64_t kShapes[][2] = {{1, 32}, {3, 224}, {7, 544}, {300, 64}, {2, 1056}};

TEST(Encode, ThreadsAndInstructionSetsDoNotChangeBytes) {
  for (const auto& shape : kShapes) {
    const TestMatrix m = make_matrix(static_cast<std::uint32_t>(shape[1]), shape[0], shape[1]);
    for (const Codec codec : kAll) {
      for (const bool v1 : {false, true}) {
        EncodeOptions options;
        options.q2tp_v1 = v1;
        Pool plain(1, SimdLevel::kPortable);
        const auto expected = encode(codec, m.view(), options, plain);
        for (const SimdLevel level : kLevels) {
          for (const int threads : {1, 2, 7}) {
            Pool pool(threads, level);
            EXPECT_EQ(encode(codec, m.view(), options, pool), expected)
                << codec_name(codec) << " " << simd_name(pool.simd()) << " threads " << threads
                << " cols " << m.cols;
          }
        }
      }
    }
  }
}

/// A fused multiply-add changes bytes of few matrices only, hence the number of them.
TEST(Encode, SearchesMatchThePlainReferenceOnManyMatrices) {
  for (std::uint32_t seed = 0; seed < 64; ++seed) {
    const TestMatrix m = make_matrix(seed, 4, 32 * (1 + seed % 11));
    const auto q4 = test::reference_payload(m, false, [](const float* row, std::size_t groups) {
      return test::q4tp_row(row, groups, true);
    });
    const auto plain_q4 = test::reference_payload(
        m, false,
        [](const float* row, std::size_t groups) { return test::q4tp_row(row, groups, false); });
    const auto q2 = test::reference_payload(m, true, test::q2tp_placed_row);
    for (const SimdLevel level : kLevels) {
      Pool pool(1, level);
      EncodeOptions no_search;
      no_search.rung_search = false;
      EXPECT_EQ(encode(Codec::kQ4tp, m.view(), {}, pool), q4)
          << "seed " << seed << " " << simd_name(pool.simd());
      EXPECT_EQ(encode(Codec::kQ4tp, m.view(), no_search, pool), plain_q4) << "seed " << seed;
      EXPECT_EQ(encode(Codec::kQ2tp, m.view(), {}, pool), q2)
          << "seed " << seed << " " << simd_name(pool.simd());
    }
  }
}

TEST(Encode, ZeroRowsHaveTheSpecifiedBytes) {
  const TestMatrix zero{std::vector<float>(2 * 96), 2, 96};
  Pool pool(1);
  const auto check = [&](Codec codec, EncodeOptions options, int bits, unsigned code_byte) {
    const auto payload = encode(codec, zero.view(), options, pool);
    const PlaneLayout layout = plane_layout(bits, 2, 96);
    ASSERT_EQ(payload.size(), layout.bytes);
    for (std::size_t i = 0; i < layout.params_offset; ++i)
      EXPECT_EQ(std::to_integer<unsigned>(payload[i]), code_byte);
    for (std::size_t r = 0; r < 2; ++r) {
      EXPECT_EQ(load_le<LadderParams>(payload.data() + layout.params_offset + 4 * r),
                (LadderParams{0xCB00, 0x0001}));
    }
    for (std::size_t i = layout.rungs_offset; i < payload.size(); ++i)
      EXPECT_EQ(payload[i], std::byte{0});
  };
  EncodeOptions v1;
  v1.q2tp_v1 = true;
  EncodeOptions no_search;
  no_search.rung_search = false;
  check(Codec::kQ4tp, {}, 4, 0x88);
  check(Codec::kQ4tp, no_search, 4, 0x88);
  check(Codec::kQ2tp, {}, 2, 0xAA);
  check(Codec::kQ2tp, v1, 2, 0xAA);
  check(Codec::kQ2tp, no_search, 2, 0xAA);
}

TEST(Encode, HalvesRoundAsTheFormatSaysAtEveryInstructionSet) {
  std::vector<float> values;
  for (std::uint32_t h = 0; h < 0x7C00; ++h) {
    const float low = f16_to_f32(static_cast<std::uint16_t>(h));
    const float high = h + 1 < 0x7C00 ? f16_to_f32(static_cast<std::uint16_t>(h + 1)) : 65536.0F;
    const float middle = 0.5F * (low + high);
    for (const float x :
         {low, middle, std::nextafter(middle, 0.0F), std::nextafter(middle, 1e9F)}) {
      values.push_back(x);
      values.push_back(-x);
    }
  }
  const auto count = static_cast<std::int64_t>(values.size());
  for (const SimdLevel level : kLevels) {
    Pool pool(1, level);
    const auto payload = encode(Codec::kF16, {values.data(), 1, count}, {}, pool);
    for (std::size_t i = 0; i < values.size(); ++i) {
      ASSERT_EQ(load_le<std::uint16_t>(payload.data() + 2 * i), f32_to_f16(values[i])) << values[i];
    }
  }
  EXPECT_EQ(f32_to_f16(0x1p-25F), 0x0001);
  EXPECT_EQ(f32_to_f16(2.5F * 0x1p-24F), 0x0003);
  EXPECT_EQ(f32_to_f16(65519.0F), 0x7BFF);
  EXPECT_EQ(f32_to_f16(65520.0F), 0x7C00);
}

TEST(Encode, StridedViewsGiveTheBytesOfTheCopy) {
  const TestMatrix wide = make_matrix(9, 6, 128);
  TestMatrix copy{{}, 5, 64};
  for (std::int64_t r = 0; r < 5; ++r) {
    for (std::int64_t c = 0; c < 64; ++c) copy.values.push_back(wide.view()(r, 32 + c));
  }
  Pool pool(2);
  for (const Codec codec : kAll) {
    EXPECT_EQ(encode(codec, wide.view().block(0, 32, 5, 64), {}, pool),
              encode(codec, copy.view(), {}, pool))
        << codec_name(codec);
  }
}

TEST(Encode, MatricesWithoutRowsHaveOnlyFixedTables) {
  const TestMatrix empty{{}, 0, 64};
  Pool pool(1);
  EXPECT_TRUE(encode(Codec::kQ4tp, empty.view(), {}, pool).empty());
  EXPECT_TRUE(encode(Codec::kQ2tp, empty.view(), {}, pool).empty());
  EXPECT_EQ(encode(Codec::kQ82f, empty.view(), {}, pool).size(), 128U);
  EXPECT_EQ(encode(Codec::kQ1s, empty.view(), {}, pool).size(), 4U);
  EXPECT_EQ(encode(Codec::kVbit, empty.view(), {}, pool).size(), 4U);
}

TEST(Encode, ColumnsThatAreNoMultipleOf32FallBackToQ82f) {
  EXPECT_EQ(with_column_fallback(Codec::kQ4tp, 33), Codec::kQ82f);
  EXPECT_EQ(with_column_fallback(Codec::kQ4Tiled, 50), Codec::kQ82f);
  EXPECT_EQ(with_column_fallback(Codec::kMxfp4, 31), Codec::kQ82f);
  EXPECT_EQ(with_column_fallback(Codec::kQ4tp, 64), Codec::kQ4tp);
  EXPECT_EQ(with_column_fallback(Codec::kQ4Block, 33), Codec::kQ4Block);
  EXPECT_EQ(with_column_fallback(Codec::kF16, 33), Codec::kF16);
}

TEST(FindNonFinite, ReportsTheFirstPlaceForEveryThreadCount) {
  TestMatrix m = make_matrix(1, 200, 130);
  for (const int threads : {1, 2, 7}) {
    Pool pool(threads);
    EXPECT_EQ(find_non_finite(m.view(), pool), std::nullopt);
  }
  m.values[150 * 130 + 7] = std::numeric_limits<float>::quiet_NaN();
  m.values[150 * 130 + 9] = std::numeric_limits<float>::infinity();
  m.values[199 * 130] = -std::numeric_limits<float>::infinity();
  for (const int threads : {1, 2, 7}) {
    Pool pool(threads);
    EXPECT_EQ(find_non_finite(m.view(), pool), std::optional<std::int64_t>(150 * 130 + 7));
  }
}

TEST(FindNonFinite, TakesTheGreatestFiniteValueAsFinite) {
  const std::vector<float> values(64, std::numeric_limits<float>::max());
  Pool pool(1);
  EXPECT_EQ(find_non_finite({values.data(), 2, 32}, pool), std::nullopt);
}

}  // namespace
}  // namespace cortiq::codec
