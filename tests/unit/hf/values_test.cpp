#include "cortiq/hf/values.hpp"

#include <gtest/gtest.h>

#include <bit>
#include <cmath>
#include <limits>

#include "cortiq/support/half.hpp"
#include "tiny_folder.hpp"

namespace cortiq::hf {
namespace {

using cmf::DType;

template <typename To, typename From>
std::vector<To> convert(const std::vector<From>& values, SourceType type, DType dtype) {
  std::vector<To> out(values.size());
  convert_values(std::as_bytes(std::span(values)), type, dtype,
                 reinterpret_cast<std::byte*>(out.data()), 0, "t");
  return out;
}

template <typename From>
std::string refusal(const std::vector<From>& values, SourceType type, DType dtype) {
  try {
    static_cast<void>(convert<float>(values, type, dtype));
  } catch (const Error& error) {
    return error.what();
  }
  return "";
}

TEST(Values, f32_to_f16_equals_the_rule_of_the_format_on_a_dense_sample) {
  std::vector<float> values;
  for (std::uint32_t bits = 0; bits <= 0x477FE000U; bits += 997) {
    values.push_back(std::bit_cast<float>(bits));
    values.push_back(-values.back());
  }
  // Ties and their neighbours around every f16, subnormal ones included.
  for (std::uint32_t half = 0; half < 0x7BFFU; ++half) {
    const float low = f16_to_f32(static_cast<std::uint16_t>(half));
    const float middle = (low + f16_to_f32(static_cast<std::uint16_t>(half + 1))) / 2;
    for (const float value :
         {low, middle, std::nextafter(middle, 0.0F), std::nextafter(middle, 1e9F)}) {
      values.push_back(value);
    }
  }
  const auto halves = convert<std::uint16_t>(values, SourceType::kF32, DType::kF16);
  for (std::size_t i = 0; i < values.size(); ++i)
    ASSERT_EQ(halves[i], f32_to_f16(values[i])) << values[i];
}

TEST(Values, every_finite_f16_widens_exactly_and_comes_back) {
  std::vector<std::uint16_t> halves;
  for (std::uint32_t half = 0; half < 65536; ++half) {
    if ((half & 0x7C00U) != 0x7C00U) halves.push_back(static_cast<std::uint16_t>(half));
  }
  const auto floats = convert<float>(halves, SourceType::kF16, DType::kF32);
  for (std::size_t i = 0; i < halves.size(); ++i) {
    ASSERT_EQ(std::bit_cast<std::uint32_t>(floats[i]),
              std::bit_cast<std::uint32_t>(f16_to_f32(halves[i])));
  }
  EXPECT_EQ(convert<std::uint16_t>(floats, SourceType::kF32, DType::kF16), halves);
}

TEST(Values, bf16_passes_through_f32_and_rounds_to_even) {
  const std::vector<std::uint16_t> brains = {0x3F80, 0xBF80, 0x0001, 0x7F7F, 0x8000};
  EXPECT_EQ(convert<std::uint16_t>(brains, SourceType::kBf16, DType::kBf16), brains);
  const std::vector<float> ties = {std::bit_cast<float>(0x3F808000U),
                                   std::bit_cast<float>(0x3F818000U)};
  EXPECT_EQ(convert<std::uint16_t>(ties, SourceType::kF32, DType::kBf16),
            (std::vector<std::uint16_t>{0x3F80, 0x3F82}));
}

TEST(Values, small_integers_become_floats_and_large_ones_are_refused) {
  EXPECT_EQ(
      convert<float>(std::vector<std::int64_t>{-3, 16777216}, SourceType::kI64, DType::kF32).size(),
      2U);
  EXPECT_EQ(convert<float>(std::vector<std::int32_t>{-3, 7}, SourceType::kI32, DType::kF32),
            (std::vector<float>{-3.0F, 7.0F}));
  EXPECT_NE(refusal(std::vector<std::int32_t>{0, 16777217}, SourceType::kI32, DType::kF32)
                .find("element 1 is 16777217"),
            std::string::npos);
}

TEST(Values, refuses_what_the_target_cannot_hold_with_place_value_and_remedy) {
  std::vector<float> values(5000, 1.0F);
  values[4097] = -65536.0F;
  const std::string message = refusal(values, SourceType::kF32, DType::kF16);
  EXPECT_NE(message.find("tensor t: element 4097 is -65536"), std::string::npos) << message;
  EXPECT_NE(message.find("--dtype bf16"), std::string::npos) << message;
  EXPECT_EQ(refusal(values, SourceType::kF32, DType::kBf16), "");
  values[4097] = 65504.0F;
  EXPECT_EQ(refusal(values, SourceType::kF32, DType::kF16), "");
  values[4097] = 65505.0F;
  EXPECT_NE(refusal(values, SourceType::kF32, DType::kF16), "");
  values[4097] = std::numeric_limits<float>::max();
  EXPECT_NE(refusal(values, SourceType::kF32, DType::kBf16).find("--dtype f32"), std::string::npos);
  EXPECT_NE(refusal(std::vector<std::uint16_t>{0x4780}, SourceType::kBf16, DType::kF16), "");
}

TEST(Values, refuses_nan_and_infinity_for_every_target) {
  for (const float bad :
       {std::numeric_limits<float>::quiet_NaN(), -std::numeric_limits<float>::infinity()}) {
    for (const DType dtype : {DType::kF16, DType::kBf16, DType::kF32}) {
      const std::string message = refusal(std::vector<float>{0.0F, bad}, SourceType::kF32, dtype);
      EXPECT_NE(message.find("element 1"), std::string::npos) << message;
      EXPECT_NE(message.find("damaged"), std::string::npos) << message;
    }
  }
  const std::vector<std::uint16_t> halves = {0x3C00, 0x7E00};
  EXPECT_THROW(check_values(std::as_bytes(std::span(halves)), SourceType::kF16, 0, "t"), Error);
}

}  // namespace
}  // namespace cortiq::hf
