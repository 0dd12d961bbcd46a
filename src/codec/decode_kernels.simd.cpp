// The inner loops of the decoders. Every path gives the same bits: one product per value, no sums.
#include "decode_kernels.hpp"

#include <cstddef>
#include <cstdint>
#include <cstring>

#if defined(__AVX2__)
#include <immintrin.h>
#endif

namespace cortiq::codec::CORTIQ_SIMD {

namespace {

float scalar_f16(std::uint16_t half) noexcept {
  const std::uint32_t sign = static_cast<std::uint32_t>(half & 0x8000U) << 16;
  const std::uint32_t exponent = (half >> 10) & 0x1FU;
  const std::uint32_t mantissa = half & 0x3FFU;
  std::uint32_t bits = 0;
  if (exponent == 31) {
    bits = 0x7F800000U | (mantissa << 13);
  } else if (exponent != 0) {
    bits = ((exponent + 112) << 23) | (mantissa << 13);
  } else {
    const float magnitude = static_cast<float>(mantissa) * 0x1p-24F;
    std::memcpy(&bits, &magnitude, sizeof(bits));
  }
  bits |= sign;
  float value = 0.0F;
  std::memcpy(&value, &bits, sizeof(value));
  return value;
}

void f16(const void* in, float* out, std::int64_t n) noexcept {
  const auto* bytes = static_cast<const unsigned char*>(in);
  std::int64_t i = 0;
#if defined(__AVX2__)
  // The processor quiets a signalling NaN; the format keeps all payload bits, so such a block goes
  // the slow way.
  const __m128i exponent = _mm_set1_epi16(0x7C00);
  for (; i + 8 <= n; i += 8) {
    const __m128i halves = _mm_loadu_si128(reinterpret_cast<const __m128i*>(bytes + 2 * i));
    const __m128i top = _mm_cmpeq_epi16(_mm_and_si128(halves, exponent), exponent);
    if (_mm_movemask_epi8(top) == 0) {
      _mm256_storeu_ps(out + i, _mm256_cvtph_ps(halves));
      continue;
    }
    for (std::int64_t k = i; k < i + 8; ++k) {
      std::uint16_t half = 0;
      std::memcpy(&half, bytes + 2 * k, sizeof(half));
      out[k] = scalar_f16(half);
    }
  }
#endif
  for (; i < n; ++i) {
    std::uint16_t half = 0;
    std::memcpy(&half, bytes + 2 * i, sizeof(half));
    out[i] = scalar_f16(half);
  }
}

void bf16(const void* in, float* out, std::int64_t n) noexcept {
  const auto* bytes = static_cast<const unsigned char*>(in);
  for (std::int64_t i = 0; i < n; ++i) {
    std::uint16_t half = 0;
    std::memcpy(&half, bytes + 2 * i, sizeof(half));
    const std::uint32_t bits = static_cast<std::uint32_t>(half) << 16;
    std::memcpy(out + i, &bits, sizeof(bits));
  }
}

void q8_row(const std::int8_t* q, float scale, float* out, std::int64_t n) noexcept {
  for (std::int64_t i = 0; i < n; ++i) out[i] = static_cast<float>(q[i]) * scale;
}

void q8_2f(const std::int8_t* q, float scale, const float* column, float* out,
           std::int64_t n) noexcept {
  for (std::int64_t i = 0; i < n; ++i) out[i] = (static_cast<float>(q[i]) * scale) * column[i];
}

void q4(const std::uint8_t* codes, std::int64_t code_stride, const float* scales, float* out,
        std::int64_t groups) noexcept {
#if defined(__AVX2__)
  const __m256i shifts = _mm256_setr_epi32(0, 4, 8, 12, 16, 20, 24, 28);
  const __m256i mask = _mm256_set1_epi32(15);
  const __m256i eight = _mm256_set1_epi32(8);
  for (std::int64_t g = 0; g < groups; ++g, codes += code_stride, out += 32) {
    const __m256 scale = _mm256_set1_ps(scales[g]);
    for (int part = 0; part < 4; ++part) {
      int word = 0;
      std::memcpy(&word, codes + 4 * part, sizeof(word));
      const __m256i nibbles =
          _mm256_and_si256(_mm256_srlv_epi32(_mm256_set1_epi32(word), shifts), mask);
      const __m256 levels = _mm256_cvtepi32_ps(_mm256_sub_epi32(nibbles, eight));
      _mm256_storeu_ps(out + 8 * part, _mm256_mul_ps(levels, scale));
    }
  }
#else
  for (std::int64_t g = 0; g < groups; ++g, codes += code_stride, out += 32) {
    for (int k = 0; k < 16; ++k) {
      out[2 * k] = static_cast<float>((codes[k] & 15) - 8) * scales[g];
      out[2 * k + 1] = static_cast<float>((codes[k] >> 4) - 8) * scales[g];
    }
  }
#endif
}

void q2(const std::uint8_t* codes, const float* scales, float* out, std::int64_t groups) noexcept {
#if defined(__AVX2__)
  const __m256i shifts = _mm256_setr_epi32(0, 2, 4, 6, 8, 10, 12, 14);
  const __m256 levels = _mm256_setr_ps(-1.5F, -0.5F, 0.5F, 1.5F, -1.5F, -0.5F, 0.5F, 1.5F);
  for (std::int64_t g = 0; g < groups; ++g, codes += 8, out += 32) {
    const __m256 table = _mm256_mul_ps(levels, _mm256_set1_ps(scales[g]));
    for (int part = 0; part < 4; ++part) {
      std::uint16_t word = 0;
      std::memcpy(&word, codes + 2 * part, sizeof(word));
      // The table repeats after 4 entries, so the bits of the next code that reach the index do no
      // harm.
      const __m256i index = _mm256_srlv_epi32(_mm256_set1_epi32(word), shifts);
      _mm256_storeu_ps(out + 8 * part, _mm256_permutevar8x32_ps(table, index));
    }
  }
#else
  for (std::int64_t g = 0; g < groups; ++g, codes += 8, out += 32) {
    const float table[4] = {-1.5F * scales[g], -0.5F * scales[g], 0.5F * scales[g],
                            1.5F * scales[g]};
    for (int k = 0; k < 8; ++k) {
      for (int j = 0; j < 4; ++j) out[4 * k + j] = table[(codes[k] >> (2 * j)) & 3];
    }
  }
#endif
}

}  // namespace

DecodeKernels decode_kernels() noexcept { return {f16, bf16, q8_row, q8_2f, q4, q2}; }

}  // namespace cortiq::codec::CORTIQ_SIMD
