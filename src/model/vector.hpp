// vector.hpp: one register of floats and the functions on it, for the *.simd.cpp files of this
// module. All of it lives in the namespace of the instruction set, so that no inline function is
// shared between them.
#pragma once

#if defined(__x86_64__)
#include <immintrin.h>
#endif

#include <cstddef>
#include <cstdint>

namespace cortiq::model::CORTIQ_SIMD {

#if defined(CORTIQ_SIMD_IS_avx512)
inline constexpr int kLanes = 16;
#elif defined(CORTIQ_SIMD_IS_avx2)
inline constexpr int kLanes = 8;
#else
inline constexpr int kLanes = 4;
#endif

typedef float Vf __attribute__((vector_size(kLanes * 4)));
typedef std::int32_t Vi __attribute__((vector_size(kLanes * 4)));
typedef std::uint32_t Vu __attribute__((vector_size(kLanes * 4)));
typedef float Vhalf __attribute__((vector_size(kLanes * 2)));  // as many floats as Vd has doubles
typedef double Vd __attribute__((vector_size(kLanes * 4)));
typedef std::int64_t Vl __attribute__((vector_size(kLanes * 4)));
typedef std::uint64_t Vul __attribute__((vector_size(kLanes * 4)));
inline constexpr int kDoubles = kLanes / 2;

static inline Vf load(const float* p) {
  Vf v;
  __builtin_memcpy(&v, p, sizeof(v));
  return v;
}
static inline void store(float* p, Vf v) { __builtin_memcpy(p, &v, sizeof(v)); }
/// The first n lanes (n < kLanes), zero above.
static inline Vf load_part(const float* p, std::int64_t n) {
  Vf v = {};
  __builtin_memcpy(&v, p, static_cast<std::size_t>(n) * sizeof(float));
  return v;
}
static inline void store_part(float* p, Vf v, std::int64_t n) {
  __builtin_memcpy(p, &v, static_cast<std::size_t>(n) * sizeof(float));
}
static inline Vf splat(float x) { return x - Vf{}; }
static inline Vd splat(double x) { return x - Vd{}; }

/// a*b + c, in one rounding where the instruction set has it.
static inline Vf fma(Vf a, Vf b, Vf c) {
#if defined(CORTIQ_SIMD_IS_avx512)
  return _mm512_fmadd_ps(a, b, c);
#elif defined(CORTIQ_SIMD_IS_avx2)
  return _mm256_fmadd_ps(a, b, c);
#elif defined(__FP_FAST_FMAF)
  Vf r;
  for (int i = 0; i < kLanes; ++i) r[i] = __builtin_fmaf(a[i], b[i], c[i]);
  return r;
#else
  return a * b + c;
#endif
}
static inline Vd fma(Vd a, Vd b, Vd c) {
#if defined(CORTIQ_SIMD_IS_avx512)
  return _mm512_fmadd_pd(a, b, c);
#elif defined(CORTIQ_SIMD_IS_avx2)
  return _mm256_fmadd_pd(a, b, c);
#elif defined(__FP_FAST_FMA)
  Vd r;
  for (int i = 0; i < kDoubles; ++i) r[i] = __builtin_fma(a[i], b[i], c[i]);
  return r;
#else
  return a * b + c;
#endif
}

/// A NaN in b is lost, one in a stays: max(value, limit).
static inline Vf max(Vf a, Vf b) { return a < b ? b : a; }
static inline float reduce_max(Vf v) {
  float m = v[0];
  for (int i = 1; i < kLanes; ++i) m = v[i] > m ? v[i] : m;
  return m;
}
static inline float reduce_add(Vf v) {
  for (int step = kLanes / 2; step > 0; step /= 2) {
    for (int i = 0; i < step; ++i) v[i] += v[i + step];
  }
  return v[0];
}
static inline double reduce_add(Vd v) {
  for (int step = kDoubles / 2; step > 0; step /= 2) {
    for (int i = 0; i < step; ++i) v[i] += v[i + step];
  }
  return v[0];
}

static inline Vd widen(const float* p) {
  Vhalf v;
  __builtin_memcpy(&v, p, sizeof(v));
  return __builtin_convertvector(v, Vd);
}

// exp(x) = 2^n * exp(r), r = x - n*ln2 in [-ln2/2, ln2/2], ln2 split so that n*high is exact. The
// power series is cut where its next term is below half an ulp of the result (r^8/8! < 6e-9).
struct ExpParts {
  Vf series;   // exp(r) - 1
  Vf shifted;  // 1.5*2^23 + n: its low bits are n
};
static inline ExpParts exp_parts(Vf x) {
  const Vf magic = splat(12582912.0F);  // 1.5*2^23
  const Vf shifted = fma(x, splat(1.44269504F), magic);
  const Vf n = shifted - magic;
  Vf r = fma(n, splat(-0.693359375F), x);
  r = fma(n, splat(2.12194440e-4F), r);
  Vf p = splat(1.0F / 5040);
  p = fma(p, r, splat(1.0F / 720));
  p = fma(p, r, splat(1.0F / 120));
  p = fma(p, r, splat(1.0F / 24));
  p = fma(p, r, splat(1.0F / 6));
  p = fma(p, r, splat(0.5F));
  p = fma(p * r, r, r);
  return {p, shifted};
}
/// Relative error about 1e-7; zero below -87, the value at 88 above 88; NaN stays NaN.
static inline Vf exp(Vf x) {
  const Vf low = splat(-87.0F);
  const Vf high = splat(88.0F);
  Vf y = x < low ? low : x;
  y = y > high ? high : y;
  const ExpParts parts = exp_parts(y);
  const Vu bits = __builtin_bit_cast(Vu, parts.series + splat(1.0F)) +
                  (__builtin_bit_cast(Vu, parts.shifted) << 23);
  const Vf result = __builtin_bit_cast(Vf, bits);
  const Vf flushed = x < low ? Vf{} : result;
  return x == x ? flushed : x;
}
/// exp(x) - 1 without cancellation, for |x| <= 60.
static inline Vf expm1(Vf x) {
  const ExpParts parts = exp_parts(x);
  const Vu one = __builtin_bit_cast(Vu, splat(1.0F));
  const Vf power = __builtin_bit_cast(Vf, one + (__builtin_bit_cast(Vu, parts.shifted) << 23));
  return fma(parts.series, power, power - splat(1.0F));
}
static inline Vf tanh(Vf x) {
  const Vf limit = splat(20.0F);
  Vf y = x > limit ? limit : x;
  y = y < -limit ? -limit : y;
  const Vf e = expm1(y + y);
  const Vf result = e / (e + splat(2.0F));
  return x == x ? result : x;
}

/// f64 exp for arguments <= 0, relative error below 1e-15; zero below -700; NaN stays NaN.
static inline Vd exp(Vd x) {
  const Vd low = splat(-700.0);
  const Vd y = x < low ? low : x;
  const Vd magic = splat(6755399441055744.0);  // 1.5*2^52
  const Vd shifted = fma(y, splat(1.4426950408889634), magic);
  const Vd n = shifted - magic;
  Vd r = fma(n, splat(-0.693147180369123816490), y);  // 33 bits: exact for |n| < 2^20
  r = fma(n, splat(-1.90821492927058770002e-10), r);
  Vd p = splat(1.0 / 479001600);
  p = fma(p, r, splat(1.0 / 39916800));
  p = fma(p, r, splat(1.0 / 3628800));
  p = fma(p, r, splat(1.0 / 362880));
  p = fma(p, r, splat(1.0 / 40320));
  p = fma(p, r, splat(1.0 / 5040));
  p = fma(p, r, splat(1.0 / 720));
  p = fma(p, r, splat(1.0 / 120));
  p = fma(p, r, splat(1.0 / 24));
  p = fma(p, r, splat(1.0 / 6));
  p = fma(p, r, splat(0.5));
  p = fma(p * r, r, r);
  const Vul bits =
      __builtin_bit_cast(Vul, p + splat(1.0)) + (__builtin_bit_cast(Vul, shifted) << 52);
  const Vd result = __builtin_bit_cast(Vd, bits);
  const Vd flushed = x < low ? Vd{} : result;
  return x == x ? flushed : x;
}

}  // namespace cortiq::model::CORTIQ_SIMD
