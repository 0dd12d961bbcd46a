// round_group.glsl: rounding a group column by column with feedback, one row a thread. Needs codes.glsl and the constant
// kFourBit. The caller fills ratio, inverse_u and x.
#ifndef CORTIQ_ROUND_GROUP_GLSL
#define CORTIQ_ROUND_GROUP_GLSL

shared vec4 ratio[32][8];    // U_jk / U_jj for k > j, else 0
shared float inverse_u[32];  // 1 / U_jj

float x[32];  // weights of the group, then residuals w - q
uvec4 codes;

bool four_bit() { return kFourBit != 0u; }

// Passes the residual d of column j on to the later columns of the group and keeps it in the place of the weight.
void feed_back(uint j, float d) {
  [[unroll]] for (uint q = j / 4u; q < 8u; ++q) {
    const vec4 r = ratio[j][q];
    [[unroll]] for (uint e = 0u; e < 4u; ++e)
      if (q * 4u + e > j) x[q * 4u + e] = fma(-d, r[e], x[q * 4u + e]);
  }
  x[j] = d;
}

// Rounds x in place to residuals at one scale; returns the sum of e'^2.
float round_group(float scale) {
  const float inverse_scale = scale > 0.0 ? 1.0 / scale : 0.0;
  float loss = 0.0;
  codes = uvec4(0u);
  [[unroll]] for (uint j = 0u; j < 32u; ++j) {
    const float w = x[j];
    uint code = nearest_code(w, inverse_scale, four_bit());
    float d = fma(-level_of(code, four_bit()), scale, w);
    if (!(scale > 0.0)) {
      code = four_bit() ? 8u : 0u;
      d = w;
    }
    codes[j / 8u] |= code << (j % 8u * 4u);
    const float e = d * inverse_u[j];
    loss = fma(e, e, loss);
    feed_back(j, d);
  }
  return loss;
}
#endif
