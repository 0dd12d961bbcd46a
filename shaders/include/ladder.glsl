// ladder.glsl: f16 conversions, log2, exp2 and the placing of ladders by the rules of the format (gptq.md sections 0
// and 1). f16 values and table entries agree with the host's but for very rare last bits of log2.
#ifndef CORTIQ_LADDER_GLSL
#define CORTIQ_LADDER_GLSL
#include "two_float.glsl"

const uint kTinyHalf = 0x0400u;      // 2^-14, the least scale of a file
const uint kInfiniteHalf = 0x7c00u;
const uint kInfiniteBits = 0x7f800000u;
const uint kMaxStepWalk = 64u;

float half_value(uint half_bits) {
  const uint sign = (half_bits & 0x8000u) << 16;
  const uint exponent = (half_bits >> 10) & 0x1fu, mantissa = half_bits & 0x3ffu;
  if (exponent == 31u) return uintBitsToFloat(sign | kInfiniteBits | (mantissa << 13));
  if (exponent != 0u) return uintBitsToFloat(sign | ((exponent + 112u) << 23) | (mantissa << 13));
  const float magnitude = float(mantissa) * 5.9604644775390625e-8;  // 2^-24
  return uintBitsToFloat(sign | floatBitsToUint(magnitude));
}

// Nearest even; half up in magnitude where the result is subnormal; overflow to infinity.
uint half_of(float value) {
  const uint bits = floatBitsToUint(value);
  const uint sign = (bits >> 16) & 0x8000u, mantissa = bits & 0x7fffffu;
  const int biased = int((bits >> 23) & 0xffu);
  if (biased == 255) return sign | kInfiniteHalf | (mantissa != 0u ? 0x200u : 0u);
  const int exponent = biased - 112;
  if (exponent >= 31) return sign | kInfiniteHalf;
  if (exponent <= 0) {
    if (exponent < -10) return sign;
    const uint full = mantissa | 0x800000u, shift = uint(14 - exponent);
    return sign | ((full >> shift) + ((full >> (shift - 1u)) & 1u));
  }
  const uint truncated = (uint(exponent) << 10) | (mantissa >> 13);
  const uint half_bit = (mantissa >> 12) & 1u;
  const uint sticky = (mantissa & 0xfffu) != 0u ? 1u : 0u;
  return sign | (truncated + (half_bit & (sticky | (truncated & 1u))));
}

// Half of max(f16(x), 2^-14), x >= 0.
uint scale_half(float x) { return max(half_of(x), kTinyHalf); }

// log2 of a positive normal number, as a pair (about 2^-30 relative).
vec2 log2_pair(float x) {
  const uint bits = floatBitsToUint(x);
  int exponent = int(bits >> 23) - 127;
  float m = uintBitsToFloat((bits & 0x7fffffu) | 0x3f800000u);
  if (m > 1.4142135) {
    m *= 0.5;
    exponent += 1;
  }
  // t = (m - 1) / (m + 1); ln m = 2 (t + t^3/3 + ...), |t| < 0.172
  precise float above = m - 1.0;
  const vec2 sum = two_sum(m, 1.0);
  precise float q = above / sum.x;
  const vec2 p = two_product(q, sum.x);
  precise float rest = (((above - p.x) - p.y) - q * sum.y) / sum.x;
  const float t2 = q * q;
  float series = 1.0 / 15.0;
  series = fma(series, t2, 1.0 / 13.0);
  series = fma(series, t2, 1.0 / 11.0);
  series = fma(series, t2, 1.0 / 9.0);
  series = fma(series, t2, 1.0 / 7.0);
  series = fma(series, t2, 1.0 / 5.0);
  series = fma(series, t2, 1.0 / 3.0);
  precise float tail = series * t2 * q + rest;
  const vec2 two_over_ln2 = vec2(2.885390043258667, 3.851926067e-8);
  return add_pairs(vec2(float(exponent), 0.0), multiply_pairs(two_sum(q, tail), two_over_ln2));
}

// log2 of the value of a half in [2^-14, infinity].
float scale_log2(uint half_bits) {
  return half_bits >= kInfiniteHalf ? uintBitsToFloat(kInfiniteBits) : log2_pair(half_value(half_bits)).x;
}

// exp2, rounded to nearest; infinity from 128 on, 0 where f32 would be subnormal.
float exp2_rounded(float y) {
  if (!(y < 128.0)) return uintBitsToFloat(kInfiniteBits);
  if (y < -126.0) return 0.0;
  const float whole = floor(y);
  const vec2 x = multiply_pairs(vec2(y - whole, 0.0), vec2(0.6931471824645996, -1.9046542e-9));  // ln 2
  float series = 1.14707456e-11;  // 1/14!, ..., 1/6!
  series = fma(series, x.x, 1.60590438e-10);
  series = fma(series, x.x, 2.0876757e-9);
  series = fma(series, x.x, 2.50521084e-8);
  series = fma(series, x.x, 2.75573192e-7);
  series = fma(series, x.x, 2.75573192e-6);
  series = fma(series, x.x, 2.48015873e-5);
  series = fma(series, x.x, 1.98412698e-4);
  series = fma(series, x.x, 1.38888889e-3);
  vec2 r = add_pairs(vec2(8.333333767950535e-3, -4.3461720e-10), multiply_pairs(vec2(series, 0.0), x));  // 1/5!
  r = add_pairs(vec2(4.16666679084301e-2, -1.2417635e-9), multiply_pairs(r, x));
  r = add_pairs(vec2(0.1666666716337204, -4.9670539e-9), multiply_pairs(r, x));
  r = add_pairs(vec2(0.5, 0.0), multiply_pairs(r, x));
  r = add_pairs(vec2(1.0, 0.0), multiply_pairs(r, x));
  r = add_pairs(vec2(1.0, 0.0), multiply_pairs(r, x));
  // 2^whole as bits added to the exponent; whole + 127 >= 1.
  return uintBitsToFloat(floatBitsToUint(r.x) + (uint(int(whole)) << 23));
}

// Smallest f16 step with low + above*step >= top, from f16((top - low)/above) up by at most 64 units.
uint covering_step(uint lo, float top, float above) {
  if (lo == kInfiniteHalf) return 1u;  // weights beyond what a file can hold: found by the first rung
  if (!is_finite(top)) return kInfiniteHalf;
  const float low = half_value(lo);
  precise float range = top - low;
  uint step = half_of(quotient(max(range, 0.0), above));
  for (uint i = 0u; i < kMaxStepWalk; ++i) {
    const float value = half_value(step);
    precise float reach = above * value;
    reach = low + reach;
    if (value > 0.0 && reach >= top) break;
    step += 1u;
  }
  return step;
}

uint covering_params(float lo, float top, float above) {
  const uint low = half_of(lo);
  return low | (covering_step(low, top, above) << 16);
}

// The two factors of the chain t[0] = x, t[c] = t[c-1] * y.
vec2 chain_factors(uint params) {
  return vec2(exp2_rounded(half_value(params & 0xffffu)), exp2_rounded(half_value(params >> 16)));
}
#endif
