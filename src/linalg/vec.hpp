// vec.hpp: the vector types of the packed kernels, one set per instruction set, and the register
// tile they span.
//
// Included by *.simd.cpp only. Tile sizes follow from the registers: avx2 has 16, so 6 x 2
// accumulators leave room for two vectors of B and broadcasts of A; avx512 and NEON have 32. Enough
// independent sums to hide two fused multiply-adds per cycle at latency 4 (8 to 10 chains) in each
// case.
#pragma once

#include <cmath>
#include <cstddef>
#include <cstdint>
#if defined(CORTIQ_SIMD_IS_avx2) || defined(CORTIQ_SIMD_IS_avx512)
#include <immintrin.h>
#elif defined(__aarch64__)
#include <arm_neon.h>
#endif

#define CORTIQ_INLINE inline __attribute__((always_inline))
#if defined(__clang__)
#define CORTIQ_UNROLL _Pragma("unroll")
#else
#define CORTIQ_UNROLL _Pragma("GCC unroll 16")
#endif

namespace cortiq::linalg::CORTIQ_SIMD {

#if defined(CORTIQ_SIMD_IS_avx512)

struct F32 {
  using Scalar = float;
  using V = __m512;
  static constexpr int kLanes = 16, kRows = 14, kVectors = 2;
  static CORTIQ_INLINE V zero() { return _mm512_setzero_ps(); }
  static CORTIQ_INLINE V load(const float* p) { return _mm512_loadu_ps(p); }
  static CORTIQ_INLINE void store(float* p, V v) { _mm512_storeu_ps(p, v); }
  static CORTIQ_INLINE V splat(float x) { return _mm512_set1_ps(x); }
  static CORTIQ_INLINE V mul(V a, V b) { return _mm512_mul_ps(a, b); }
  static CORTIQ_INLINE V fma(V a, V b, V c) { return _mm512_fmadd_ps(a, b, c); }
  static CORTIQ_INLINE float fma1(float a, float b, float c) { return __builtin_fmaf(a, b, c); }
  /// c[0..kLanes) += v, in f64.
  static CORTIQ_INLINE void add_f64(double* c, V v) {
    // The zero-masked forms: GCC 12 warns of an uninitialized value inside the plain ones.
    const __m512d low = _mm512_maskz_cvtps_pd(0xFF, _mm512_maskz_extractf32x8_ps(0xFF, v, 0));
    const __m512d high = _mm512_maskz_cvtps_pd(0xFF, _mm512_maskz_extractf32x8_ps(0xFF, v, 1));
    _mm512_storeu_pd(c, _mm512_add_pd(_mm512_loadu_pd(c), low));
    _mm512_storeu_pd(c + 8, _mm512_add_pd(_mm512_loadu_pd(c + 8), high));
  }
};

struct F64 {
  using Scalar = double;
  using V = __m512d;
  static constexpr int kLanes = 8, kRows = 14, kVectors = 2;
  static CORTIQ_INLINE V zero() { return _mm512_setzero_pd(); }
  static CORTIQ_INLINE V load(const double* p) { return _mm512_loadu_pd(p); }
  static CORTIQ_INLINE void store(double* p, V v) { _mm512_storeu_pd(p, v); }
  static CORTIQ_INLINE V splat(double x) { return _mm512_set1_pd(x); }
  static CORTIQ_INLINE V mul(V a, V b) { return _mm512_mul_pd(a, b); }
  static CORTIQ_INLINE V fma(V a, V b, V c) { return _mm512_fmadd_pd(a, b, c); }
  static CORTIQ_INLINE V fnma(V a, V b, V c) { return _mm512_fnmadd_pd(a, b, c); }
  static CORTIQ_INLINE V sub(V a, V b) { return _mm512_sub_pd(a, b); }
  static CORTIQ_INLINE double fma1(double a, double b, double c) { return __builtin_fma(a, b, c); }
};

#elif defined(CORTIQ_SIMD_IS_avx2)

struct F32 {
  using Scalar = float;
  using V = __m256;
  static constexpr int kLanes = 8, kRows = 6, kVectors = 2;
  static CORTIQ_INLINE V zero() { return _mm256_setzero_ps(); }
  static CORTIQ_INLINE V load(const float* p) { return _mm256_loadu_ps(p); }
  static CORTIQ_INLINE void store(float* p, V v) { _mm256_storeu_ps(p, v); }
  static CORTIQ_INLINE V splat(float x) { return _mm256_set1_ps(x); }
  static CORTIQ_INLINE V mul(V a, V b) { return _mm256_mul_ps(a, b); }
  static CORTIQ_INLINE V fma(V a, V b, V c) { return _mm256_fmadd_ps(a, b, c); }
  static CORTIQ_INLINE float fma1(float a, float b, float c) { return __builtin_fmaf(a, b, c); }
  /// c[0..kLanes) += v, in f64.
  static CORTIQ_INLINE void add_f64(double* c, V v) {
    const __m256d low = _mm256_cvtps_pd(_mm256_castps256_ps128(v));
    const __m256d high = _mm256_cvtps_pd(_mm256_extractf128_ps(v, 1));
    _mm256_storeu_pd(c, _mm256_add_pd(_mm256_loadu_pd(c), low));
    _mm256_storeu_pd(c + 4, _mm256_add_pd(_mm256_loadu_pd(c + 4), high));
  }
};

struct F64 {
  using Scalar = double;
  using V = __m256d;
  static constexpr int kLanes = 4, kRows = 6, kVectors = 2;
  static CORTIQ_INLINE V zero() { return _mm256_setzero_pd(); }
  static CORTIQ_INLINE V load(const double* p) { return _mm256_loadu_pd(p); }
  static CORTIQ_INLINE void store(double* p, V v) { _mm256_storeu_pd(p, v); }
  static CORTIQ_INLINE V splat(double x) { return _mm256_set1_pd(x); }
  static CORTIQ_INLINE V mul(V a, V b) { return _mm256_mul_pd(a, b); }
  static CORTIQ_INLINE V fma(V a, V b, V c) { return _mm256_fmadd_pd(a, b, c); }
  static CORTIQ_INLINE V fnma(V a, V b, V c) { return _mm256_fnmadd_pd(a, b, c); }
  static CORTIQ_INLINE V sub(V a, V b) { return _mm256_sub_pd(a, b); }
  static CORTIQ_INLINE double fma1(double a, double b, double c) { return __builtin_fma(a, b, c); }
};

#else

/// 16-byte vectors: SSE2 or NEON on the baselines of x86-64 and arm64. Without a fused instruction
/// in the baseline products and sums round apart.
template <typename T, int Rows, int Vectors>
struct Vec16 {
  using Scalar = T;
  typedef T V __attribute__((vector_size(16)));
  static constexpr int kLanes = 16 / static_cast<int>(sizeof(T)), kRows = Rows, kVectors = Vectors;
  static CORTIQ_INLINE V zero() { return V{}; }
  static CORTIQ_INLINE V load(const T* p) {
    V v;
    __builtin_memcpy(&v, p, sizeof(V));
    return v;
  }
  static CORTIQ_INLINE void store(T* p, V v) { __builtin_memcpy(p, &v, sizeof(V)); }
  static CORTIQ_INLINE V splat(T x) { return V{} + x; }
  static CORTIQ_INLINE V mul(V a, V b) { return a * b; }
  static CORTIQ_INLINE V sub(V a, V b) { return a - b; }
#if defined(__aarch64__)
  static CORTIQ_INLINE V fma(V a, V b, V c) { return fused(c, a, b); }
  static CORTIQ_INLINE V fnma(V a, V b, V c) { return fused(c, -a, b); }
  static CORTIQ_INLINE float32x4_t fused(float32x4_t c, float32x4_t a, float32x4_t b) {
    return vfmaq_f32(c, a, b);
  }
  static CORTIQ_INLINE float64x2_t fused(float64x2_t c, float64x2_t a, float64x2_t b) {
    return vfmaq_f64(c, a, b);
  }
  static CORTIQ_INLINE T fma1(T a, T b, T c) { return fma1_of(a, b, c); }
  static CORTIQ_INLINE float fma1_of(float a, float b, float c) { return __builtin_fmaf(a, b, c); }
  static CORTIQ_INLINE double fma1_of(double a, double b, double c) {
    return __builtin_fma(a, b, c);
  }
#else
  static CORTIQ_INLINE V fma(V a, V b, V c) { return a * b + c; }
  static CORTIQ_INLINE V fnma(V a, V b, V c) { return c - a * b; }
  static CORTIQ_INLINE T fma1(T a, T b, T c) { return a * b + c; }
#endif
  /// c[0..kLanes) += v, in f64.
  static CORTIQ_INLINE void add_f64(double* c, V v) {
    for (int lane = 0; lane < kLanes; ++lane) c[lane] += static_cast<double>(v[lane]);
  }
};

#if defined(__aarch64__)
using F32 = Vec16<float, 8, 2>;
using F64 = Vec16<double, 8, 2>;
#else
using F32 = Vec16<float, 4, 2>;
using F64 = Vec16<double, 4, 2>;
#endif

#endif

}  // namespace cortiq::linalg::CORTIQ_SIMD
