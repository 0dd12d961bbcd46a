// codes.glsl: codes, rungs and scales of a group (layout.h, "Kernels of the sweep").
#ifndef CORTIQ_CODES_GLSL
#define CORTIQ_CODES_GLSL

// Number behind a code: level of q4tp, or q2tp's -1.5 … 1.5.
float level_of(uint code, bool four_bit) {
  return four_bit ? float(code) - 8.0 : float(code) - 1.5;
}

uint code_at(uvec4 codes, uint t) { return codes[t / 8u] >> (t % 8u * 4u) & 15u; }

// x / scale, given 1 / scale, to the nearest code.
uint nearest_code(float x, float inverse_scale, bool four_bit) {
  return four_bit ? uint(clamp(roundEven(x * inverse_scale), -8.0, 7.0) + 8.0)
                  : uint(clamp(roundEven(x * inverse_scale + 1.5), 0.0, 3.0));
}
#endif
