// lanes.hpp: the few vector operations that the kernels need, on the widest registers of the
// instruction set that the file is compiled for. Only for *.simd.cpp. Products are fused where the
// set has fused multiply-add.
#pragma once

#if defined(CORTIQ_SIMD_IS_avx2) || defined(CORTIQ_SIMD_IS_avx512)
#include <immintrin.h>
#endif

#define CORTIQ_LANES_INLINE static inline __attribute__((always_inline))

namespace cortiq::gptq::CORTIQ_SIMD {

#if defined(CORTIQ_SIMD_IS_avx512)

using VecF = __m512;
using VecD = __m512d;
inline constexpr int kLanesF = 16;
inline constexpr int kLanesD = 8;
CORTIQ_LANES_INLINE VecF load(const float* p) { return _mm512_loadu_ps(p); }
CORTIQ_LANES_INLINE VecD load(const double* p) { return _mm512_loadu_pd(p); }
CORTIQ_LANES_INLINE void store(float* p, VecF v) { _mm512_storeu_ps(p, v); }
CORTIQ_LANES_INLINE void store(double* p, VecD v) { _mm512_storeu_pd(p, v); }
CORTIQ_LANES_INLINE VecF splat(float v) { return _mm512_set1_ps(v); }
CORTIQ_LANES_INLINE VecD splat(double v) { return _mm512_set1_pd(v); }
// The full masks avoid a false warning of GCC 12 about the unmasked forms (uninitialized
// pass-through operand).
CORTIQ_LANES_INLINE VecF clamp(VecF v, VecF lo, VecF hi) {
  return _mm512_maskz_min_ps(0xFFFF, _mm512_maskz_max_ps(0xFFFF, v, lo), hi);
}
CORTIQ_LANES_INLINE VecD clamp(VecD v, VecD lo, VecD hi) {
  return _mm512_maskz_min_pd(0xFF, _mm512_maskz_max_pd(0xFF, v, lo), hi);
}
CORTIQ_LANES_INLINE VecF mul_add(VecF a, VecF b, VecF c) { return _mm512_fmadd_ps(a, b, c); }
CORTIQ_LANES_INLINE VecD mul_add(VecD a, VecD b, VecD c) { return _mm512_fmadd_pd(a, b, c); }
CORTIQ_LANES_INLINE VecF neg_mul_add(VecF a, VecF b, VecF c) { return _mm512_fnmadd_ps(a, b, c); }
CORTIQ_LANES_INLINE VecD neg_mul_add(VecD a, VecD b, VecD c) { return _mm512_fnmadd_pd(a, b, c); }
/// v where gate > 0, else 0.
CORTIQ_LANES_INLINE VecD where_positive(VecD gate, VecD v) {
  return _mm512_maskz_mov_pd(_mm512_cmp_pd_mask(gate, _mm512_setzero_pd(), _CMP_GT_OQ), v);
}

#elif defined(CORTIQ_SIMD_IS_avx2)

using VecF = __m256;
using VecD = __m256d;
inline constexpr int kLanesF = 8;
inline constexpr int kLanesD = 4;
CORTIQ_LANES_INLINE VecF load(const float* p) { return _mm256_loadu_ps(p); }
CORTIQ_LANES_INLINE VecD load(const double* p) { return _mm256_loadu_pd(p); }
CORTIQ_LANES_INLINE void store(float* p, VecF v) { _mm256_storeu_ps(p, v); }
CORTIQ_LANES_INLINE void store(double* p, VecD v) { _mm256_storeu_pd(p, v); }
CORTIQ_LANES_INLINE VecF splat(float v) { return _mm256_set1_ps(v); }
CORTIQ_LANES_INLINE VecD splat(double v) { return _mm256_set1_pd(v); }
CORTIQ_LANES_INLINE VecF clamp(VecF v, VecF lo, VecF hi) {
  return _mm256_min_ps(_mm256_max_ps(v, lo), hi);
}
CORTIQ_LANES_INLINE VecD clamp(VecD v, VecD lo, VecD hi) {
  return _mm256_min_pd(_mm256_max_pd(v, lo), hi);
}
CORTIQ_LANES_INLINE VecF mul_add(VecF a, VecF b, VecF c) { return _mm256_fmadd_ps(a, b, c); }
CORTIQ_LANES_INLINE VecD mul_add(VecD a, VecD b, VecD c) { return _mm256_fmadd_pd(a, b, c); }
CORTIQ_LANES_INLINE VecF neg_mul_add(VecF a, VecF b, VecF c) { return _mm256_fnmadd_ps(a, b, c); }
CORTIQ_LANES_INLINE VecD neg_mul_add(VecD a, VecD b, VecD c) { return _mm256_fnmadd_pd(a, b, c); }
CORTIQ_LANES_INLINE VecD where_positive(VecD gate, VecD v) {
  return _mm256_and_pd(v, _mm256_cmp_pd(gate, _mm256_setzero_pd(), _CMP_GT_OQ));
}

#else

using VecF = float __attribute__((vector_size(16)));
using VecD = double __attribute__((vector_size(16)));
inline constexpr int kLanesF = 4;
inline constexpr int kLanesD = 2;
CORTIQ_LANES_INLINE VecF load(const float* p) {
  VecF v;
  __builtin_memcpy(&v, p, sizeof(v));
  return v;
}
CORTIQ_LANES_INLINE VecD load(const double* p) {
  VecD v;
  __builtin_memcpy(&v, p, sizeof(v));
  return v;
}
CORTIQ_LANES_INLINE void store(float* p, VecF v) { __builtin_memcpy(p, &v, sizeof(v)); }
CORTIQ_LANES_INLINE void store(double* p, VecD v) { __builtin_memcpy(p, &v, sizeof(v)); }
CORTIQ_LANES_INLINE VecF splat(float v) { return VecF{v, v, v, v}; }
CORTIQ_LANES_INLINE VecD splat(double v) { return VecD{v, v}; }
CORTIQ_LANES_INLINE VecF clamp(VecF v, VecF lo, VecF hi) {
  const VecF raised = v > lo ? v : lo;
  return raised < hi ? raised : hi;
}
CORTIQ_LANES_INLINE VecD clamp(VecD v, VecD lo, VecD hi) {
  const VecD raised = v > lo ? v : lo;
  return raised < hi ? raised : hi;
}
CORTIQ_LANES_INLINE VecF mul_add(VecF a, VecF b, VecF c) { return a * b + c; }
CORTIQ_LANES_INLINE VecD mul_add(VecD a, VecD b, VecD c) { return a * b + c; }
CORTIQ_LANES_INLINE VecF neg_mul_add(VecF a, VecF b, VecF c) { return c - a * b; }
CORTIQ_LANES_INLINE VecD neg_mul_add(VecD a, VecD b, VecD c) { return c - a * b; }
CORTIQ_LANES_INLINE VecD where_positive(VecD gate, VecD v) {
  const VecD zero = splat(0.0);
  return gate > zero ? v : zero;
}

#endif

/// Adding and subtracting 1.5 * 2^mantissa_bits rounds to the nearest integer, ties to even (|x| <
/// 2^(bits-1)); larger values keep their sign and size, which is all that a clamp needs.
inline constexpr float kRoundF = 12582912.0F;
inline constexpr double kRoundD = 6755399441055744.0;

}  // namespace cortiq::gptq::CORTIQ_SIMD
