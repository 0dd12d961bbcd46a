// lanes.hpp: a vector of f32 as wide as the instruction set a kernel is compiled for. For
// *.simd.cpp only. Every operation is one IEEE operation per lane, so a lane computes what scalar
// code computes.
#pragma once

#include <cstdint>
#include <cstring>

#if defined(__AVX2__)
#pragma GCC diagnostic push
#if !defined(__clang__)
// GCC 12 takes the deliberately undefined operands inside its own AVX-512 functions for mistakes.
#pragma GCC diagnostic ignored "-Wuninitialized"
#pragma GCC diagnostic ignored "-Wmaybe-uninitialized"
#endif
#include <immintrin.h>
#pragma GCC diagnostic pop
#endif

namespace cortiq::codec::CORTIQ_SIMD {

#if defined(__AVX512F__)
inline constexpr int kLanes = 16;
#elif defined(__AVX2__)
inline constexpr int kLanes = 8;
#else
inline constexpr int kLanes = 4;
#endif

typedef float Floats __attribute__((vector_size(4 * kLanes)));
typedef std::int32_t Ints __attribute__((vector_size(4 * kLanes)));

inline Floats load(const float* in) noexcept {
  Floats v;
  std::memcpy(&v, in, sizeof(v));
  return v;
}
inline void store(float* out, Floats v) noexcept { std::memcpy(out, &v, sizeof(v)); }
inline void store(std::int32_t* out, Ints v) noexcept { std::memcpy(out, &v, sizeof(v)); }

#if defined(__AVX512F__)
inline Floats splat(float x) noexcept { return _mm512_set1_ps(x); }
inline Floats min(Floats a, Floats b) noexcept { return _mm512_min_ps(a, b); }
inline Floats max(Floats a, Floats b) noexcept { return _mm512_max_ps(a, b); }
#elif defined(__AVX2__)
inline Floats splat(float x) noexcept { return _mm256_set1_ps(x); }
inline Floats min(Floats a, Floats b) noexcept { return _mm256_min_ps(a, b); }
inline Floats max(Floats a, Floats b) noexcept { return _mm256_max_ps(a, b); }
#else
inline Floats splat(float x) noexcept { return Floats{x, x, x, x}; }
inline Floats min(Floats a, Floats b) noexcept { return a < b ? a : b; }
inline Floats max(Floats a, Floats b) noexcept { return a > b ? a : b; }
#endif

/// A NaN stays one (the processor returns the second operand then).
inline Floats clamp(Floats x, float lo, float hi) noexcept {
  return min(splat(hi), max(splat(lo), x));
}

/// 1.5 * 2^23: adding it rounds a small number to an integer, ties to even, and leaves the integer
/// in the low bits.
inline constexpr float kRounder = 0x1.8p23F;
inline Floats round_even(Floats x) noexcept { return (x + splat(kRounder)) - splat(kRounder); }

}  // namespace cortiq::codec::CORTIQ_SIMD
