// two_float.glsl: sums and products as unevaluated pairs of f32 (about 46 bits), for the few values that decide bytes.
// Uses only additions and multiplications, which every device rounds correctly. Finite, no overflow.
#ifndef CORTIQ_TWO_FLOAT_GLSL
#define CORTIQ_TWO_FLOAT_GLSL

vec2 two_sum(float a, float b) {
  precise float s = a + b;
  precise float b_seen = s - a;
  precise float a_seen = s - b_seen;
  precise float lost = (a - a_seen) + (b - b_seen);
  return vec2(s, lost);
}

// Halves of 12 bits, whose products are exact.
float leading_bits(float a) { return uintBitsToFloat(floatBitsToUint(a) & 0xfffff000u); }

vec2 two_product(float a, float b) {
  precise float p = a * b;
  precise float ah = leading_bits(a), bh = leading_bits(b);
  precise float al = a - ah, bl = b - bh;
  precise float lost = ((ah * bh - p) + ah * bl + al * bh) + al * bl;
  return vec2(p, lost);
}

vec2 add_pairs(vec2 a, vec2 b) {
  const vec2 s = two_sum(a.x, b.x);
  precise float low = s.y + (a.y + b.y);
  return two_sum(s.x, low);
}

vec2 multiply_pairs(vec2 a, vec2 b) {
  const vec2 p = two_product(a.x, b.x);
  precise float low = p.y + (a.x * b.y + a.y * b.x);
  return two_sum(p.x, low);
}

// a / b; the sum of the pair is off by a few units of its last place.
vec2 quotient_pair(float a, float b) {
  precise float q = a / b;
  const vec2 p = two_product(q, b);
  precise float rest = ((a - p.x) - p.y) / b;
  return two_sum(q, rest);
}

// Rounded to nearest, where the device's own division may be off by 2.5 units.
float quotient(float a, float b) { return quotient_pair(a, b).x; }
#endif
