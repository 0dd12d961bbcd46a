// delta_net.simd.cpp: the inner loops of gated DeltaNet: convolution, unit norm and the recurrence.
#include <cmath>

#include "kernels.hpp"
#include "vector.hpp"

namespace cortiq::model::CORTIQ_SIMD {
namespace {

constexpr int kRegs = static_cast<int>(kDeltaCols) / kLanes;
static_assert(kRegs * kLanes == kDeltaCols && kRegs >= 2);

/// sum[0, kDeltaCols) = sum_i k[i] * state[i]. Two sums per register hide the latency.
inline void read_state(const float* k, const float* state, std::int64_t key_dim, Vf* sum) {
  Vf even[kRegs] = {};
  Vf odd[kRegs] = {};
  std::int64_t i = 0;
  for (; i + 2 <= key_dim; i += 2, state += 2 * kDeltaCols) {
    const Vf a = splat(k[i]);
    const Vf b = splat(k[i + 1]);
    for (int j = 0; j < kRegs; ++j) {
      even[j] = fma(a, load(state + j * kLanes), even[j]);
      odd[j] = fma(b, load(state + kDeltaCols + j * kLanes), odd[j]);
    }
  }
  if (i < key_dim) {
    for (int j = 0; j < kRegs; ++j) even[j] = fma(splat(k[i]), load(state + j * kLanes), even[j]);
  }
  for (int j = 0; j < kRegs; ++j) sum[j] = even[j] + odd[j];
}

/// state = decay * state + k (x) delta; out = sum_i q[i] * state[i].
inline void write_state(const float* q, const float* k, float decay, const Vf* delta,
                        std::int64_t key_dim, float* state, Vf* out) {
  const Vf shrink = splat(decay);
  for (int j = 0; j < kRegs; ++j) out[j] = Vf{};
  for (std::int64_t i = 0; i < key_dim; ++i, state += kDeltaCols) {
    const Vf a = splat(k[i]);
    const Vf b = splat(q[i]);
    for (int j = 0; j < kRegs; ++j) {
      const Vf s = fma(a, delta[j], shrink * load(state + j * kLanes));
      store(state + j * kLanes, s);
      out[j] = fma(b, s, out[j]);
    }
  }
}

/// The first n of kDeltaCols values, zero above.
inline void load_columns(const float* from, std::int64_t n, float* to) {
  for (std::int64_t i = 0; i < n; ++i) to[i] = from[i];
  for (std::int64_t i = n; i < kDeltaCols; ++i) to[i] = 0.0F;
}

}  // namespace

void unit_norm(Rows x, std::int64_t rows, std::int64_t n, float scale) {
  for (std::int64_t r = 0; r < rows; ++r) {
    float* row = x.data + r * x.stride;
    double sum = 0;
    for (std::int64_t i = 0; i < n; ++i)
      sum += static_cast<double>(row[i]) * static_cast<double>(row[i]);
    const float inverse = static_cast<float>(1.0 / std::sqrt(sum + 1e-6));
    for (std::int64_t i = 0; i < n; ++i) row[i] = row[i] * inverse * scale;
  }
}

void causal_conv(Rows x, std::int64_t rows, std::int64_t n, const float* w, std::int64_t w_stride,
                 std::int64_t taps) {
  // From the last row to the first: a row is read by itself and by later rows only.
  for (std::int64_t t = rows - 1; t >= 0; --t) {
    float* row = x.data + t * x.stride;
    const std::int64_t used = t + 1 < taps ? t + 1 : taps;
    for (std::int64_t c = 0; c < n; c += kLanes) {
      const std::int64_t width = n - c;
      const bool whole = width >= kLanes;
      Vf sum = {};
      for (std::int64_t back = used - 1; back >= 0; --back) {
        const float* from = row - back * x.stride + c;
        const float* tap = w + (taps - 1 - back) * w_stride + c;
        sum = whole ? fma(load(tap), load(from), sum)
                    : fma(load_part(tap, width), load_part(from, width), sum);
      }
      const Vf value = sum / (splat(1.0F) + exp(-sum));
      if (whole) {
        store(row + c, value);
      } else {
        store_part(row + c, value, width);
      }
    }
  }
}

void delta_rule(const DeltaTile& t) {
  for (std::int64_t i = 0; i < t.key_dim * kDeltaCols; ++i) t.state[i] = 0.0F;
  float values[kDeltaCols];
  for (std::int64_t r = 0; r < t.rows; ++r) {
    const std::int64_t at = r * t.stride;
    load_columns(t.v + at, t.cols, values);
    Vf sum[kRegs];
    read_state(t.k + at, t.state, t.key_dim, sum);
    const Vf decay = splat(t.decay[at]);
    const Vf beta = splat(t.beta[at]);
    Vf delta[kRegs];
    for (int j = 0; j < kRegs; ++j) delta[j] = beta * (load(values + j * kLanes) - decay * sum[j]);
    Vf out[kRegs];
    write_state(t.q + at, t.k + at, t.decay[at], delta, t.key_dim, t.state, out);
    for (int j = 0; j < kRegs; ++j) store(values + j * kLanes, out[j]);
    float* to = t.out + r * t.out_stride;
    for (std::int64_t i = 0; i < t.cols; ++i) to[i] = values[i];
  }
}

}  // namespace cortiq::model::CORTIQ_SIMD
