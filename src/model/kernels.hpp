// kernels.hpp: the vectorised inner loops of the forward pass, one copy per instruction set
// (kernels in *.simd.cpp). Rows are handled one by one, so a result never depends on which rows
// share a call.
#pragma once

#include <cstdint>

namespace cortiq::model {

inline constexpr std::int64_t kQueryRows =
    48;  ///< queries of one attention tile: a multiple of kTileRows
inline constexpr std::int64_t kTileRows = 6;   ///< rows of the register tile
inline constexpr std::int64_t kKeyPanel = 64;  ///< keys of one packed panel
inline constexpr std::int64_t kValuePad = 32;  ///< value rows are padded to a multiple of this

/// Rows of f32 values: row r starts at data + r*stride.
struct Rows {
  float* data;
  std::int64_t stride;
};
struct ConstRows {
  const float* data;
  std::int64_t stride;
};

/// One tile: up to kQueryRows consecutive queries of one head against the keys that they may see.
struct AttentionTile {
  const float* q;  ///< [rows, head_dim], row stride q_stride
  std::int64_t q_stride;
  std::int64_t rows;
  std::int64_t first_query;  ///< position of row 0 inside the window
  const float* keys;         ///< panels [head_dim, kKeyPanel], zero beyond the window
  const float* values;  ///< [panels*kKeyPanel, value_pad], zero beyond the window and beyond v_dim
  std::int64_t head_dim;
  std::int64_t v_dim;
  std::int64_t value_pad;
  float scale;
  float softcap;        ///< 0 = none
  std::int64_t window;  ///< 0 = none; the query itself counts
  float sink;           ///< logit without a key; -infinity = none
  float* out;           ///< [rows, v_dim]
  std::int64_t out_stride;
  float* scratch;  ///< attention_scratch_floats() values
};
[[nodiscard]] constexpr std::int64_t attention_scratch_floats(std::int64_t head_dim,
                                                              std::int64_t value_pad) {
  return kQueryRows * (head_dim + value_pad) + kTileRows * kKeyPanel;
}

/// One value head of one window, columns [0, cols) of its state.
struct DeltaTile {
  const float* q;       ///< [rows, key_dim], normed and scaled
  const float* k;       ///< [rows, key_dim], normed
  const float* v;       ///< [rows, cols]
  const float* decay;   ///< [rows], factor of the state
  const float* beta;    ///< [rows]
  std::int64_t stride;  ///< of all five
  std::int64_t rows;
  std::int64_t key_dim;
  std::int64_t cols;  ///< 1..kDeltaCols
  float* out;         ///< [rows, cols]
  std::int64_t out_stride;
  float* state;  ///< [key_dim, kDeltaCols], overwritten
};
inline constexpr std::int64_t kDeltaCols = 32;  ///< 16 KiB of state at a key_dim of 128

/// kSigmoid is the bare sigmoid, for gates that multiply something else.
enum class Gate : std::int32_t { kSilu, kGeluTanh, kGelu, kSigmoid };

/// Running log-sum-exp of one row; starts as {-infinity, 0}.
struct LogSum {
  double max;
  double sum;  ///< of exp(x - max)
};

/// Running sums of KL(base || test) of one row.
struct DivergenceSums {
  LogSum base;
  LogSum test;
  double cross;  ///< sum of exp(base - base.max) * (base - test)
};

#define CORTIQ_MODEL_DECLARE_KERNELS(target)                                                     \
  namespace target {                                                                             \
  /* out = x / sqrt(mean(x^2) + eps) * weight; sums f64; x may be out */                         \
  void rms_norm(ConstRows x, std::int64_t rows, std::int64_t n, const float* weight, double eps, \
                Rows out);                                                                       \
  /* h += y; returns the first row of h that is then not finite, -1 if all are */                \
  std::int64_t add_rows(Rows h, ConstRows y, std::int64_t rows, std::int64_t n);                 \
  void add_bias(Rows y, const float* bias, std::int64_t rows, std::int64_t n);                   \
  void scale_rows(Rows y, float factor, std::int64_t rows, std::int64_t n);                      \
  /* pairs (i, i + half); tables [rows, half] */                                                 \
  void rotate(Rows x, std::int64_t rows, std::int64_t half, const float* cosine,                 \
              const float* sine);                                                                \
  /* gate = act(gate) * up */                                                                    \
  void gate_product(Gate kind, Rows gate, ConstRows up, std::int64_t rows, std::int64_t n);      \
  /* x = x * act(gate) */                                                                        \
  void multiply_gate(Gate kind, Rows x, ConstRows gate, std::int64_t rows, std::int64_t n);      \
  /* h[index[r]] += factor[r] * y[r] */                                                          \
  void add_scaled(Rows h, const std::int32_t* index, const float* factor, ConstRows y,           \
                  std::int64_t rows, std::int64_t n);                                            \
  /* x = x / sqrt(sum(x^2) + 1e-6) * scale; sums f64 */                                          \
  void unit_norm(Rows x, std::int64_t rows, std::int64_t n, float scale);                        \
  /* y[t] = silu(sum_j w[j] * x[t - taps + 1 + j]), zero before row 0; in place. w: row stride   \
   * w_stride */                                                                                 \
  void causal_conv(Rows x, std::int64_t rows, std::int64_t n, const float* w,                    \
                   std::int64_t w_stride, std::int64_t taps);                                    \
  void delta_rule(const DeltaTile& tile);                                                        \
  /* x = cap * tanh(x / cap) */                                                                  \
  void soft_cap(Rows x, float cap, std::int64_t rows, std::int64_t n);                           \
  void exp_values(const float* x, float* out, std::int64_t n);                                   \
  void attend(const AttentionTile& tile);                                                        \
  void add_log_sum(const float* x, std::int64_t n, LogSum* state);                               \
  void add_divergence(const float* base, const float* test, std::int64_t n,                      \
                      DivergenceSums* state);                                                    \
  }

CORTIQ_MODEL_DECLARE_KERNELS(portable)
#if defined(__x86_64__)
CORTIQ_MODEL_DECLARE_KERNELS(avx2)
CORTIQ_MODEL_DECLARE_KERNELS(avx512)
#endif

}  // namespace cortiq::model
