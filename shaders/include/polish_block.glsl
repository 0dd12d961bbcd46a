// polish_block.glsl: what block_polish and block_moves share: G of 8 rows over a block of columns in shared memory, changes of
// a group written as operand lines and passed on inside the block. Needs split.glsl, the constant kSplit and `push` of type
// PolishPush.
#ifndef CORTIQ_POLISH_BLOCK_GLSL
#define CORTIQ_POLISH_BLOCK_GLSL

const uint kRows = 8u;
const uint kBlock = 256u;
const uint kDeadBit = 0x80000000u;

shared float block_g[kRows][kBlock + 4u];
shared vec4 changes[32][kRows / 4u];  // q_new - q_old of the group, [column][row]

void load_gradient(uint row0) {
  for (uint i = gl_LocalInvocationID.x; i < kRows * kBlock; i += gl_WorkGroupSize.x) {
    const uint r = i / kBlock, c = i % kBlock;
    const uint from = min(row0 + r, push.rows - 1u);
    block_g[r][c] = c < push.columns ? advance(push.gradient, uint64_t(from) * push.size).at[c] : 0.0;
  }
}

// Behind a barrier after `changes` were written.
void pass_changes_on(uint group, uint row0) {
  const uint thread = gl_LocalInvocationID.x;
  if (thread < kRows * 8u && row0 + thread / 8u < push.rows) {
    const uint r = thread / 8u, quarter = thread % 8u;
    vec4 v;
    [[unroll]] for (uint e = 0u; e < 4u; ++e) v[e] = changes[quarter * 4u + e][r / 4u][r % 4u];
    Uvec4s line = offset_lines(push.changes, uint64_t(group) * push.padded_rows + row0 + r);
    store_line(line, quarter, v, kSplit != 0u, push.scale);
  }
  if (thread < (group + 1u) * 32u || thread >= push.columns) return;
  vec4 low = vec4(0.0), high = vec4(0.0);
  [[unroll]] for (uint j = 0u; j < 32u; ++j) {
    const float h = push.band.at[(group * 32u + j) * kBlock + thread];
    low = fma(vec4(h), changes[j][0], low);
    high = fma(vec4(h), changes[j][1], high);
  }
  [[unroll]] for (uint r = 0u; r < 4u; ++r) {
    block_g[r][thread] += low[r];
    block_g[r + 4u][thread] += high[r];
  }
}
#endif
