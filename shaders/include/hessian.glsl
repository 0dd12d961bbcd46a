// hessian.glsl: elements of the equilibrated Hessian, read from the packed triangle. Needs `push` of type BuildPush.
#ifndef CORTIQ_HESSIAN_GLSL
#define CORTIQ_HESSIAN_GLSL

const uint kDeadBit = 0x80000000u;

// Row r of the packed upper triangle of an n x n matrix starts at r(2n-r+1)/2.
float packed_h(uint a, uint b) {
  const uint row = min(a, b), column = max(a, b);
  const uint64_t start = uint64_t(row) * (2ul * push.n - row + 1ul) / 2ul;
  return advance(push.h, start + (column - row)).at[0];
}

// `diagonal` stands on the diagonal of live channels and of the padding alike.
float equilibrated(uint i, uint j, float diagonal) {
  if (i == j) return diagonal;
  if (i >= push.n || j >= push.n) return 0.0;
  const uint a = push.channel.at[i], b = push.channel.at[j];
  if (((a | b) & kDeadBit) != 0u) return 0.0;
  return packed_h(a, b) * push.base_inverse * push.inverse.at[i] * push.inverse.at[j];
}
#endif
