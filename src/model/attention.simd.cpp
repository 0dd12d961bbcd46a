// attention.simd.cpp: one tile of causal attention with a running softmax: scores of six queries
// against a panel of keys, exp, and the sum of the values, all in registers and first-level cache.
#include <cmath>
#include <limits>

#include "kernels.hpp"
#include "vector.hpp"

namespace cortiq::model::CORTIQ_SIMD {
namespace {

constexpr std::int64_t kTileCols = 2 * kLanes;
static_assert(kKeyPanel % kTileCols == 0 && kValuePad % kTileCols == 0 &&
              kQueryRows % kTileRows == 0);

struct Scratch {
  float* q;       // [kQueryRows, head_dim], scaled
  float* out;     // [kQueryRows, value_pad]
  float* scores;  // [kTileRows, kKeyPanel]
};

struct RowState {
  float max[kQueryRows];
  double sum[kQueryRows];
};

/// scores[6, cols] = q[6, depth] * panel[depth, cols].
inline void score_tile(const float* q, std::int64_t depth, const float* panel, std::int64_t cols,
                       float* scores) {
  for (std::int64_t j = 0; j < cols; j += kTileCols) {
    Vf acc[kTileRows][2] = {};
    const float* b = panel + j;
    for (std::int64_t d = 0; d < depth; ++d, b += kKeyPanel) {
      const Vf b0 = load(b);
      const Vf b1 = load(b + kLanes);
#pragma GCC unroll 6
      for (int r = 0; r < kTileRows; ++r) {
        const Vf a = splat(q[r * depth + d]);
        acc[r][0] = fma(a, b0, acc[r][0]);
        acc[r][1] = fma(a, b1, acc[r][1]);
      }
    }
    for (int r = 0; r < kTileRows; ++r) {
      store(scores + r * kKeyPanel + j, acc[r][0]);
      store(scores + r * kKeyPanel + j + kLanes, acc[r][1]);
    }
  }
}

/// out[6, width] = out * shrink + p[6, keys] * values[keys, width].
inline void value_tile(const float* p, std::int64_t keys, const float* values, std::int64_t width,
                       const float* shrink, float* out) {
  for (std::int64_t j = 0; j < width; j += kTileCols) {
    Vf acc[kTileRows][2];
    for (int r = 0; r < kTileRows; ++r) {
      acc[r][0] = load(out + r * width + j) * splat(shrink[r]);
      acc[r][1] = load(out + r * width + j + kLanes) * splat(shrink[r]);
    }
    const float* b = values + j;
    for (std::int64_t k = 0; k < keys; ++k, b += width) {
      const Vf b0 = load(b);
      const Vf b1 = load(b + kLanes);
#pragma GCC unroll 6
      for (int r = 0; r < kTileRows; ++r) {
        const Vf a = splat(p[r * kKeyPanel + k]);
        acc[r][0] = fma(a, b0, acc[r][0]);
        acc[r][1] = fma(a, b1, acc[r][1]);
      }
    }
    for (int r = 0; r < kTileRows; ++r) {
      store(out + r * width + j, acc[r][0]);
      store(out + r * width + j + kLanes, acc[r][1]);
    }
  }
}

inline void cap_scores(float* scores, std::int64_t cols, float cap) {
  const Vf c = splat(cap);
  for (int r = 0; r < kTileRows; ++r) {
    for (std::int64_t j = 0; j < cols; j += kLanes) {
      float* s = scores + r * kKeyPanel + j;
      store(s, c * tanh(load(s) / c));
    }
  }
}

/// Scores outside the range of keys that the query sees become -infinity.
inline void mask_row(float* scores, std::int64_t cols, std::int64_t low, std::int64_t high) {
  const float minus = -std::numeric_limits<float>::infinity();
  for (std::int64_t j = 0; j < cols && j < low; ++j) scores[j] = minus;
  for (std::int64_t j = high < 0 ? 0 : high; j < cols; ++j) scores[j] = minus;
}

/// Scores become exp(score - maximum so far); returns the factor for what was summed before.
inline float softmax_row(float* scores, std::int64_t cols, float* max, double* sum) {
  Vf top = load(scores);
  for (std::int64_t j = kLanes; j < cols; j += kLanes) {
    const Vf s = load(scores + j);
    top = s > top ? s : top;
  }
  const float old = *max;
  const float here = reduce_max(top);
  const float now = here > old ? here : old;
  if (now ==
      -std::numeric_limits<float>::infinity()) {  // every key of the panel is outside the window
    for (std::int64_t j = 0; j < cols; j += kLanes) store(scores + j, Vf{});
    return 1.0F;
  }
  Vf total = {};
  for (std::int64_t j = 0; j < cols; j += kLanes) {
    const Vf e = exp(load(scores + j) - splat(now));
    store(scores + j, e);
    total += e;
  }
  const float shrink = now == old ? 1.0F : exp(splat(old - now))[0];
  *max = now;
  *sum = *sum * static_cast<double>(shrink) + static_cast<double>(reduce_add(total));
  return shrink;
}

/// Six queries (rows first..first+5 of the tile) against one panel.
inline void group_panel(const AttentionTile& t, const Scratch& scratch, RowState& state,
                        std::int64_t first, std::int64_t panel) {
  const std::int64_t start = panel * kKeyPanel;
  const std::int64_t first_pos = t.first_query + first;
  const std::int64_t last_row = first + kTileRows < t.rows ? first + kTileRows : t.rows;
  const std::int64_t last_pos = t.first_query + last_row - 1;
  if (start > last_pos) return;
  if (t.window > 0 && start + kKeyPanel <= first_pos - t.window + 1) return;
  const std::int64_t visible = last_pos - start + 1 < kKeyPanel ? last_pos - start + 1 : kKeyPanel;
  const std::int64_t cols = (visible + kTileCols - 1) / kTileCols * kTileCols;
  float* scores = scratch.scores;
  score_tile(scratch.q + first * t.head_dim, t.head_dim, t.keys + start * t.head_dim, cols, scores);
  if (t.softcap > 0) cap_scores(scores, cols, t.softcap);
  float shrink[kTileRows];
  for (int r = 0; r < kTileRows; ++r) {
    // Rows that only pad the tile repeat the last query's mask; their results are not stored.
    const std::int64_t pos = first_pos + r < last_pos ? first_pos + r : last_pos;
    const std::int64_t low = t.window > 0 ? pos - t.window + 1 - start : 0;
    float* row = scores + r * kKeyPanel;
    if (low > 0 || pos - start + 1 < cols) mask_row(row, cols, low, pos - start + 1);
    shrink[r] = softmax_row(row, cols, state.max + first + r, state.sum + first + r);
  }
  value_tile(scores, visible, t.values + start * t.value_pad, t.value_pad, shrink,
             scratch.out + first * t.value_pad);
}

inline void prepare(const AttentionTile& t, const Scratch& scratch, RowState& state) {
  for (std::int64_t r = 0; r < kQueryRows; ++r) {
    float* q = scratch.q + r * t.head_dim;
    for (std::int64_t d = 0; d < t.head_dim; ++d)
      q[d] = r < t.rows ? t.q[r * t.q_stride + d] * t.scale : 0.0F;
    float* out = scratch.out + r * t.value_pad;
    for (std::int64_t d = 0; d < t.value_pad; ++d) out[d] = 0.0F;
    // A sink counts like a key that has been seen and whose value is zero.
    state.max[r] = t.sink;
    state.sum[r] = t.sink > -std::numeric_limits<float>::infinity() ? 1.0 : 0.0;
  }
}

}  // namespace

void attend(const AttentionTile& t) {
  const Scratch scratch{t.scratch, t.scratch + kQueryRows * t.head_dim,
                        t.scratch + kQueryRows * (t.head_dim + t.value_pad)};
  RowState state;
  prepare(t, scratch, state);
  const std::int64_t low =
      t.window > 0 && t.first_query >= t.window ? t.first_query - t.window + 1 : 0;
  const std::int64_t panels = (t.first_query + t.rows - 1) / kKeyPanel + 1;
  for (std::int64_t panel = low / kKeyPanel; panel < panels; ++panel) {
    for (std::int64_t first = 0; first < t.rows; first += kTileRows)
      group_panel(t, scratch, state, first, panel);
  }
  for (std::int64_t r = 0; r < t.rows; ++r) {
    const float inverse = static_cast<float>(1.0 / state.sum[r]);
    const float* from = scratch.out + r * t.value_pad;
    float* to = t.out + r * t.out_stride;
    for (std::int64_t d = 0; d < t.v_dim; ++d) to[d] = from[d] * inverse;
  }
}

}  // namespace cortiq::model::CORTIQ_SIMD
