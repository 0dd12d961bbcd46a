#include "cortiq/hf/values.hpp"

#include <algorithm>
#include <array>
#include <bit>
#include <cmath>

#include "cortiq/support/half.hpp"

namespace cortiq::hf {
namespace {

constexpr std::int64_t kBlock = 2048;  ///< elements in flight; two buffers stay in the L1 cache
constexpr std::int32_t kInfinityBits = 0x7F800000;
constexpr std::int32_t kF16MaxBits = 0x477FE000;         ///< 65504, greatest finite f16
constexpr std::int32_t kBf16MaxBits = 0x7F7F0000;        ///< 3.39e38, greatest finite bf16
constexpr std::uint32_t kF16MinNormalBits = 0x38800000;  ///< 2^-14

/// f16 -> f32 without branches: shifted into place and scaled, which is exact for subnormals too.
inline float widen_f16(std::uint16_t half) {
  const std::uint32_t sign = static_cast<std::uint32_t>(half & 0x8000U) << 16;
  const std::uint32_t magnitude = static_cast<std::uint32_t>(half & 0x7FFFU) << 13;
  const float scaled = std::bit_cast<float>(magnitude) * 0x1p112F;
  const std::uint32_t special = magnitude >= 0x0F800000U ? 0x7F800000U : 0U;
  return std::bit_cast<float>(std::bit_cast<std::uint32_t>(scaled) | special | sign);
}

/// Same result as f32_to_f16 for |value| <= 65504, without branches so that the loop vectorises.
inline std::uint16_t narrow_f16_in_range(float value) {
  const std::uint32_t bits = std::bit_cast<std::uint32_t>(value);
  const std::uint32_t magnitude = bits & 0x7FFFFFFFU;
  const std::uint32_t normal = (magnitude - 0x38000000U + 0xFFFU + ((magnitude >> 13) & 1U)) >> 13;
  const float small = std::bit_cast<float>(std::min(magnitude, kF16MinNormalBits)) * 0x1p24F;
  const auto whole = static_cast<std::int32_t>(small);
  const float rest = small - static_cast<float>(whole);
  // The fraction is compared through its bits: 0x3F000000 is 0.5.
  const std::uint32_t up = std::bit_cast<std::uint32_t>(rest) >= 0x3F000000U ? 1U : 0U;
  const std::uint32_t subnormal = static_cast<std::uint32_t>(whole) + up;
  const std::uint32_t result = magnitude >= kF16MinNormalBits ? normal : subnormal;
  return static_cast<std::uint16_t>(result | ((bits >> 16) & 0x8000U));
}

template <typename T, typename Convert>
void widen_loop(const std::byte* source, std::int64_t count, float* out, Convert convert) {
  for (std::int64_t i = 0; i < count; ++i) {
    T value;
    std::memcpy(&value, source + static_cast<std::size_t>(i) * sizeof(T), sizeof(T));
    out[i] = convert(value);
  }
}

template <typename T>
void widen_integers(const std::byte* source, std::int64_t count, float* out, std::int64_t first,
                    std::string_view tensor) {
  for (std::int64_t i = 0; i < count; ++i) {
    const T value = load_le<T>(source + static_cast<std::size_t>(i) * sizeof(T));
    if (value > (T{1} << 24) || value < -(T{1} << 24)) {
      fail(ErrorKind::kInput,
           "tensor {}: element {} is {}, an integer that f32 may not hold; such tensors cannot be "
           "converted",
           tensor, first + i, value);
    }
    out[i] = static_cast<float>(value);
  }
}

void widen(const std::byte* source, SourceType type, std::int64_t count, float* out,
           std::int64_t first, std::string_view tensor) {
  switch (type) {
    case SourceType::kF32:
      std::memcpy(out, source, static_cast<std::size_t>(count) * sizeof(float));
      return;
    case SourceType::kF16:
      widen_loop<std::uint16_t>(source, count, out, widen_f16);
      return;
    case SourceType::kBf16:
      widen_loop<std::uint16_t>(source, count, out, [](std::uint16_t bits) {
        return std::bit_cast<float>(static_cast<std::uint32_t>(bits) << 16);
      });
      return;
    case SourceType::kI32:
      widen_integers<std::int32_t>(source, count, out, first, tensor);
      return;
    case SourceType::kI64:
      widen_integers<std::int64_t>(source, count, out, first, tensor);
      return;
  }
}

std::int32_t max_magnitude_bits(const float* values, std::int64_t count) {
  std::int32_t result = 0;
  for (std::int64_t i = 0; i < count; ++i) {
    const std::int32_t bits = std::bit_cast<std::int32_t>(values[i]) & 0x7FFFFFFF;
    result = result > bits ? result : bits;
  }
  return result;
}

[[noreturn]] void refuse_value(const float* values, std::int64_t limit_bits, std::int64_t first,
                               std::string_view tensor) {
  std::int64_t i = 0;
  while ((std::bit_cast<std::int32_t>(values[i]) & 0x7FFFFFFF) <= limit_bits) ++i;
  if (!std::isfinite(values[i])) {
    fail(ErrorKind::kInput,
         "tensor {}: element {} is {}; the weights are damaged, download the model again", tensor,
         first + i, values[i]);
  }
  if (limit_bits == kF16MaxBits) {
    fail(ErrorKind::kInput,
         "tensor {}: element {} is {}, beyond 65504, the greatest value of f16; convert with "
         "--dtype bf16 or "
         "--dtype f32, which hold it",
         tensor, first + i, values[i]);
  }
  fail(ErrorKind::kInput,
       "tensor {}: element {} is {}, beyond the range of bf16; convert with --dtype f32", tensor,
       first + i, values[i]);
}

void check_block(const float* values, std::int64_t count, std::int32_t limit_bits,
                 std::int64_t first, std::string_view tensor) {
  if (max_magnitude_bits(values, count) > limit_bits)
    refuse_value(values, limit_bits, first, tensor);
}

template <typename T, typename Convert>
void narrow_loop(const float* values, std::int64_t count, std::byte* target, Convert convert) {
  for (std::int64_t i = 0; i < count; ++i) {
    const T value = convert(values[i]);
    std::memcpy(target + static_cast<std::size_t>(i) * sizeof(T), &value, sizeof(T));
  }
}

void narrow(const float* values, std::int64_t count, cmf::DType dtype, std::byte* target) {
  switch (dtype) {
    case cmf::DType::kF16:
      narrow_loop<std::uint16_t>(values, count, target, narrow_f16_in_range);
      return;
    case cmf::DType::kBf16:
      narrow_loop<std::uint16_t>(values, count, target, [](float value) {
        const std::uint32_t bits = std::bit_cast<std::uint32_t>(value);
        return static_cast<std::uint16_t>((bits + 0x7FFFU + ((bits >> 16) & 1U)) >> 16);
      });
      return;
    default:
      std::memcpy(target, values, static_cast<std::size_t>(count) * sizeof(float));
      return;
  }
}

std::int32_t limit_of(cmf::DType dtype) {
  if (dtype == cmf::DType::kF16) return kF16MaxBits;
  return dtype == cmf::DType::kBf16 ? kBf16MaxBits : kInfinityBits - 1;
}

/// One value at a time: the vectorised conversions are for finite values only.
void narrow_with_non_finite(const float* values, std::int64_t count, cmf::DType dtype,
                            std::byte* target, std::int64_t first, std::string_view tensor) {
  for (std::int64_t i = 0; i < count; ++i) {
    if (std::isfinite(values[i])) check_block(values + i, 1, limit_of(dtype), first + i, tensor);
    if (dtype == cmf::DType::kF16) store_le(target + 2 * i, f32_to_f16(values[i]));
    if (dtype == cmf::DType::kBf16) store_le(target + 2 * i, f32_to_bf16(values[i]));
    if (dtype == cmf::DType::kF32) store_le(target + 4 * i, values[i]);
  }
}

/// Calls fn(values, count, index of the first) for blocks of widened values.
template <typename Fn>
void for_blocks(ByteSpan source, SourceType type, std::int64_t first, std::string_view tensor,
                Fn fn) {
  std::array<float, static_cast<std::size_t>(kBlock)> values;
  const std::int64_t width = source_type_bytes(type);
  const auto total = static_cast<std::int64_t>(source.size()) / width;
  for (std::int64_t begin = 0; begin < total; begin += kBlock) {
    const std::int64_t count = std::min(kBlock, total - begin);
    widen(source.data() + begin * width, type, count, values.data(), first + begin, tensor);
    fn(values.data(), count, begin);
  }
}

}  // namespace

void convert_values(ByteSpan source, SourceType type, cmf::DType dtype, std::byte* target,
                    std::int64_t first, std::string_view tensor, bool keep_non_finite) {
  CORTIQ_ASSERT(cmf::is_float(dtype));
  const std::int64_t target_width = dtype == cmf::DType::kF32 ? 4 : 2;
  const std::int32_t limit = limit_of(dtype);
  for_blocks(source, type, first, tensor,
             [&](const float* values, std::int64_t count, std::int64_t begin) {
               std::byte* out = target + begin * target_width;
               if (keep_non_finite && max_magnitude_bits(values, count) >= kInfinityBits) {
                 narrow_with_non_finite(values, count, dtype, out, first + begin, tensor);
                 return;
               }
               check_block(values, count, limit, first + begin, tensor);
               narrow(values, count, dtype, out);
             });
}

void check_values(ByteSpan source, SourceType type, std::int64_t first, std::string_view tensor) {
  for_blocks(source, type, first, tensor,
             [&](const float* values, std::int64_t count, std::int64_t begin) {
               check_block(values, count, kInfinityBits - 1, first + begin, tensor);
             });
}

bool same_encoding(SourceType type, cmf::DType dtype) noexcept {
  return (type == SourceType::kF32 && dtype == cmf::DType::kF32) ||
         (type == SourceType::kF16 && dtype == cmf::DType::kF16) ||
         (type == SourceType::kBf16 && dtype == cmf::DType::kBf16);
}

}  // namespace cortiq::hf
