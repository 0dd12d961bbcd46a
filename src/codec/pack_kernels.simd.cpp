// Rounding of weights to codes and their packing; conversion to halves (codecs.md sections 1 and 3
// to 6).
#include <cstdint>
#include <cstring>

#include "encode_kernels.hpp"
#include "lanes.hpp"

namespace cortiq::codec::CORTIQ_SIMD {

namespace {

constexpr int kGroup = 32;

/// Integers below 2^bits of eight neighbours as one word, the first in the low bits.
template <int kBits>
std::uint32_t gather8(const std::int32_t* codes) noexcept {
#if defined(__AVX2__)
  const __m256i shifts =
      _mm256_setr_epi32(0, kBits, 2 * kBits, 3 * kBits, 4 * kBits, 5 * kBits, 6 * kBits, 7 * kBits);
  const __m256i wide =
      _mm256_sllv_epi32(_mm256_loadu_si256(reinterpret_cast<const __m256i*>(codes)), shifts);
  __m128i half = _mm_or_si128(_mm256_castsi256_si128(wide), _mm256_extracti128_si256(wide, 1));
  half = _mm_or_si128(half, _mm_shuffle_epi32(half, 0x4E));
  half = _mm_or_si128(half, _mm_shuffle_epi32(half, 0xB1));
  return static_cast<std::uint32_t>(_mm_cvtsi128_si32(half));
#else
  std::uint32_t word = 0;
  for (int i = 0; i < 8; ++i) word |= static_cast<std::uint32_t>(codes[i]) << (kBits * i);
  return word;
#endif
}

Ints to_ints(Floats v) noexcept { return __builtin_convertvector(v, Ints); }

template <bool kDivide>
void q4(const float* row, const float* factor, std::uint8_t* out, std::int64_t out_stride,
        std::int64_t groups) noexcept {
  for (std::int64_t g = 0; g < groups; ++g, row += kGroup, out += out_stride) {
    const Floats f = splat(factor[g]);
    std::int32_t codes[kGroup];
    for (int i = 0; i < kGroup; i += kLanes) {
      const Floats w = load(row + i);
      const Floats x = kDivide ? w / f : w * f;
      store(codes + i, to_ints(round_even(clamp(x, -8.0F, 7.0F))) + 8);
    }
    for (int part = 0; part < 4; ++part) {
      const std::uint32_t word = gather8<4>(codes + 8 * part);
      std::memcpy(out + 4 * part, &word, sizeof(word));
    }
  }
}

void q2_multiply(const float* row, const float* inverse, std::uint8_t* out,
                 std::int64_t groups) noexcept {
  for (std::int64_t g = 0; g < groups; ++g, row += kGroup, out += 8) {
    const Floats f = splat(inverse[g]);
    std::int32_t codes[kGroup];
    for (int i = 0; i < kGroup; i += kLanes) {
      const Floats x = load(row + i) * f + splat(1.5F);
      store(codes + i, to_ints(round_even(clamp(x, 0.0F, 3.0F))));
    }
    for (int part = 0; part < 4; ++part) {
      const auto word = static_cast<std::uint16_t>(gather8<2>(codes + 8 * part));
      std::memcpy(out + 2 * part, &word, sizeof(word));
    }
  }
}

/// round(quotient) of kLanes values as bytes.
void store_bytes(Floats x, float lo, std::int8_t* out, std::int64_t count) noexcept {
  std::int32_t codes[kLanes];
  store(codes, to_ints(round_even(clamp(x, lo, 127.0F))));
  for (std::int64_t i = 0; i < count; ++i) out[i] = static_cast<std::int8_t>(codes[i]);
}

/// kLanes values, or the rest of a row padded with `fill`.
Floats load_part(const float* in, std::int64_t count, float fill) noexcept {
  if (count >= kLanes) return load(in);
  float lanes[kLanes];
  for (std::int64_t i = 0; i < kLanes; ++i) lanes[i] = i < count ? in[i] : fill;
  return load(lanes);
}

std::int64_t part_size(std::int64_t rest) noexcept { return rest < kLanes ? rest : kLanes; }

void q8_row(const float* row, float scale, std::int8_t* out, std::int64_t n) noexcept {
  for (std::int64_t i = 0; i < n; i += kLanes) {
    store_bytes(load_part(row + i, n - i, 0.0F) / splat(scale), -128.0F, out + i, part_size(n - i));
  }
}

void q8_2f(const float* row, const float* column, float scale, std::int8_t* out,
           std::int64_t n) noexcept {
  for (std::int64_t i = 0; i < n; i += kLanes) {
    const Floats x = load_part(row + i, n - i, 0.0F) / load_part(column + i, n - i, 1.0F);
    store_bytes(x / splat(scale), -127.0F, out + i, part_size(n - i));
  }
}

float largest(Floats v) noexcept {
  float lanes[kLanes];
  store(lanes, v);
  float best = 0.0F;
  for (int l = 0; l < kLanes; ++l) best = lanes[l] > best ? lanes[l] : best;
  return best;
}

float abs_max(const float* row, std::int64_t n) noexcept {
  Floats best = splat(0.0F);
  for (std::int64_t i = 0; i < n; i += kLanes) {
    const Floats v = load_part(row + i, n - i, 0.0F);
    best = max(best, max(v, -v));
  }
  return largest(best);
}

float abs_max_2f(const float* row, const float* column, std::int64_t n) noexcept {
  Floats best = splat(0.0F);
  for (std::int64_t i = 0; i < n; i += kLanes) {
    const Floats v = load_part(row + i, n - i, 0.0F) / load_part(column + i, n - i, 1.0F);
    best = max(best, max(v, -v));
  }
  return largest(best);
}

std::uint16_t scalar_f16(float value) noexcept {
  std::uint32_t bits = 0;
  std::memcpy(&bits, &value, sizeof(bits));
  const std::uint32_t sign = (bits >> 16) & 0x8000U;
  const std::uint32_t magnitude = bits & 0x7FFFFFFFU;
  std::uint32_t half = 0;
  if (magnitude > 0x7F800000U) {
    half = 0x7E00U;
  } else if (magnitude >= 0x47800000U) {  // 2^16
    half = 0x7C00U;
  } else if (magnitude >= 0x38800000U) {  // 2^-14: normal, nearest even; a carry may reach infinity
    const std::uint32_t rebased = magnitude - (112U << 23);
    half = (rebased + 0xFFFU + ((rebased >> 13) & 1U)) >> 13;
  } else if (magnitude >= 0x33000000U) {  // 2^-25: subnormal, half up in magnitude
    const std::uint32_t shift = 126U - (magnitude >> 23);
    half = ((((magnitude & 0x7FFFFFU) | 0x800000U) >> (shift - 1)) + 1U) >> 1;
  }
  return static_cast<std::uint16_t>(sign | half);
}

void f16(const float* in, void* out, std::int64_t n) noexcept {
  auto* bytes = static_cast<unsigned char*>(out);
  std::int64_t i = 0;
#if defined(__AVX2__)
  // The processor's conversion agrees where the result is normal or zero; other blocks go the slow
  // way.
  const __m256 sign = _mm256_set1_ps(-0.0F);
  for (; i + 8 <= n; i += 8) {
    const __m256 v = _mm256_loadu_ps(in + i);
    const __m256 m = _mm256_andnot_ps(sign, v);
    const __m256 normal = _mm256_cmp_ps(m, _mm256_set1_ps(0x1p-14F), _CMP_GE_OQ);
    const __m256 zero = _mm256_cmp_ps(m, _mm256_setzero_ps(), _CMP_EQ_OQ);
    if (_mm256_movemask_ps(_mm256_or_ps(normal, zero)) == 0xFF) {
      const __m128i halves = _mm256_cvtps_ph(v, _MM_FROUND_TO_NEAREST_INT);
      _mm_storeu_si128(reinterpret_cast<__m128i*>(bytes + 2 * i), halves);
      continue;
    }
    for (std::int64_t k = i; k < i + 8; ++k) {
      const std::uint16_t half = scalar_f16(in[k]);
      std::memcpy(bytes + 2 * k, &half, sizeof(half));
    }
  }
#endif
  for (; i < n; ++i) {
    const std::uint16_t half = scalar_f16(in[i]);
    std::memcpy(bytes + 2 * i, &half, sizeof(half));
  }
}

void bf16(const float* in, void* out, std::int64_t n) noexcept {
  auto* bytes = static_cast<unsigned char*>(out);
  for (std::int64_t i = 0; i < n; ++i) {
    std::uint32_t bits = 0;
    std::memcpy(&bits, in + i, sizeof(bits));
    const bool nan = (bits & 0x7FFFFFFFU) > 0x7F800000U;
    const std::uint32_t rounded = (bits + 0x7FFFU + ((bits >> 16) & 1U)) >> 16;
    const auto half = static_cast<std::uint16_t>(nan ? (bits >> 16) | 0x40U : rounded);
    std::memcpy(bytes + 2 * i, &half, sizeof(half));
  }
}

}  // namespace

PackKernels pack_kernels() noexcept {
  return {q4<false>, q4<true>, q2_multiply, q8_row, q8_2f, abs_max, abs_max_2f, f16, bf16};
}

}  // namespace cortiq::codec::CORTIQ_SIMD
