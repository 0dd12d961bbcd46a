// split.glsl: writing lines of an operand (layout.h), as f32 or as two f16 halves.
#ifndef CORTIQ_SPLIT_GLSL
#define CORTIQ_SPLIT_GLSL

// Bits of an f16, from an f32 that has at most 11 significant bits (so nothing is rounded in the
// normal range; below it the tail is cut off). |x| > 65504 becomes infinity.
uint half_bits(float x) { return packHalf2x16(vec2(x, 0.0)) & 0xffffu; }

uvec2 pack_halves(vec4 v) { return uvec2(packHalf2x16(v.xy), packHalf2x16(v.zw)); }

// The 11 leading bits, rounded in integer arithmetic: some compilers fold float -> half -> float away.
vec4 high_part(vec4 x) { return uintBitsToFloat((floatBitsToUint(x) + 0x1000u) & 0xffffe000u); }

// Elements 4*quarter .. 4*quarter+3 of a line.
void store_line(Uvec4s line, uint quarter, vec4 v, bool split, float scale) {
  if (split) {
    const vec4 x = v * scale;
    const vec4 high = high_part(x);
    Uvec2s halves = Uvec2s(uint64_t(line));
    halves.at[quarter] = pack_halves(high);
    halves.at[8u + quarter] = pack_halves(x - high);
  } else {
    Vec4s(uint64_t(line)).at[quarter] = v;
  }
}
#endif
