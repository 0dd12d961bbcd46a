#include "cortiq/cmf/dtype.hpp"

#include <gtest/gtest.h>

#include <vector>

namespace cortiq::cmf {
namespace {

using Shape = std::vector<std::int64_t>;

TEST(DType, KnowsEveryIdOfTheFormat) {
  const std::vector<std::string_view> names{
      "f32",  "f16",   "bf16",    "q8_row",   "q4_block", "mix8_4", "u8",  "q4_col",
      "vbit", "q8_2f", "vbit_ro", "q4_tiled", "q1",       "q1s",    "q1t", "q4tp",
      "q2tp", "u32",   "u64",     "blr",      "q1g",      "mxfp4"};
  for (std::size_t id = 0; id < names.size(); ++id) {
    const auto dtype = try_dtype(static_cast<std::uint8_t>(id));
    ASSERT_TRUE(dtype.has_value());
    EXPECT_EQ(dtype_name(*dtype), names[id]);
  }
  EXPECT_FALSE(try_dtype(22).has_value());
  EXPECT_FALSE(try_dtype(255).has_value());
}

TEST(DType, SaysWhichTypesHaveDecoders) {
  for (std::uint8_t id = 0; id < 22; ++id) {
    const bool raw = id == 5 || id == 6 || id == 7 || id == 17 || id == 18 || id == 19;
    EXPECT_EQ(has_decoder(*try_dtype(id)), !raw) << int{id};
    EXPECT_EQ(is_float(*try_dtype(id)), id <= 2) << int{id};
  }
}

TEST(DType, PayloadSizesFollowTheFormat) {
  struct Case {
    DType dtype;
    Shape shape;
    std::uint64_t bytes;
  };
  const std::vector<Case> cases{
      {DType::kF32, {3, 5}, 60},
      {DType::kF16, {}, 2},
      {DType::kBf16, {2, 3, 4}, 48},
      {DType::kF16, {0, 7}, 0},
      {DType::kQ8Row, {5, 33}, 175},
      {DType::kQ4Block, {1, 33}, 36},
      {DType::kU8, {7}, 7},
      {DType::kQ82f, {5, 33}, 241},
      {DType::kQ4Tiled, {2, 64}, 72},
      {DType::kQ1, {3, 32}, 18},
      {DType::kQ4tp, {3, 96}, 3 * (48 + 4 + 2)},
      {DType::kQ2tp, {3, 96}, 3 * (24 + 4 + 2)},
      {DType::kQ4tp, {2, 256}, 2 * (128 + 4 + 5)},
      {DType::kU32, {3}, 12},
      {DType::kU64, {3}, 24},
      {DType::kQ1g, {2, 256}, 64 + 8},
      {DType::kMxfp4, {3, 64}, 96 + 6},
  };
  for (const Case& c : cases) {
    EXPECT_TRUE(has_fixed_size(c.dtype));
    EXPECT_EQ(fixed_payload_bytes(c.dtype, c.shape), c.bytes) << dtype_name(c.dtype);
  }
}

TEST(DType, ShapesThatATypeDoesNotAllowHaveNoSize) {
  EXPECT_FALSE(fixed_payload_bytes(DType::kQ4tp, Shape{96}));
  EXPECT_FALSE(fixed_payload_bytes(DType::kQ4tp, Shape{3, 95}));
  EXPECT_FALSE(fixed_payload_bytes(DType::kQ2tp, Shape{3, 2, 32}));
  EXPECT_FALSE(fixed_payload_bytes(DType::kQ1g, Shape{3, 64}));
  EXPECT_FALSE(fixed_payload_bytes(DType::kMxfp4, Shape{3, 0}));
  EXPECT_FALSE(fixed_payload_bytes(DType::kQ8Row, Shape{}));
  EXPECT_FALSE(fixed_payload_bytes(DType::kF16, Shape{-1}));
}

TEST(DType, SizesThatDependOnTheDataOrOverflowHaveNoSize) {
  for (const DType dtype : {DType::kVbit, DType::kVbitRo, DType::kQ1s, DType::kQ1t, DType::kBlr,
                            DType::kMix84, DType::kQ4Col}) {
    EXPECT_FALSE(has_fixed_size(dtype));
    EXPECT_FALSE(fixed_payload_bytes(dtype, Shape{32, 32}));
  }
  const std::int64_t huge = std::int64_t{1} << 62;
  EXPECT_FALSE(fixed_payload_bytes(DType::kF32, Shape{huge}));
  EXPECT_FALSE(fixed_payload_bytes(DType::kU8, Shape{huge, 8}));
  EXPECT_FALSE(fixed_payload_bytes(DType::kQ4tp, Shape{huge, 1024}));
}

}  // namespace
}  // namespace cortiq::cmf
