// score.simd.cpp: log-sum-exp and Kullback-Leibler sums of rows of logits, in f64, over a
// vocabulary cut into blocks.
#include <cmath>
#include <limits>

#include "kernels.hpp"
#include "vector.hpp"

namespace cortiq::model::CORTIQ_SIMD {
namespace {

/// A NaN is overlooked here and shows in the sum.
inline double row_max(const float* x, std::int64_t n) {
  float top = -std::numeric_limits<float>::infinity();
  std::int64_t i = 0;
  if (n >= kLanes) {
    Vf m = load(x);
    for (; i + kLanes <= n; i += kLanes) {
      const Vf v = load(x + i);
      m = v > m ? v : m;
    }
    top = reduce_max(m);
  }
  for (; i < n; ++i) top = x[i] > top ? x[i] : top;
  return static_cast<double>(top);
}

/// Moves the reference point up to `top`; returns the factor for the sums made with the old one.
inline double raise(LogSum* state, double top) {
  if (!(top > state->max)) return 1.0;
  const double shrink = std::exp(state->max - top);
  state->max = top;
  state->sum *= shrink;
  return shrink;
}

/// kDoubles values from p, the missing ones of a short tail replaced by `fill`.
inline Vd tail(const float* p, std::int64_t n, double fill) {
  Vd v = splat(fill);
  for (std::int64_t i = 0; i < n; ++i) v[i] = static_cast<double>(p[i]);
  return v;
}

}  // namespace

void add_log_sum(const float* x, std::int64_t n, LogSum* state) {
  raise(state, row_max(x, n));
  const Vd top = splat(state->max);
  Vd total = {};
  std::int64_t i = 0;
  for (; i + kDoubles <= n; i += kDoubles) total += exp(widen(x + i) - top);
  if (i < n) total += exp(tail(x + i, n - i, -std::numeric_limits<double>::infinity()) - top);
  state->sum += reduce_add(total);
}

void add_divergence(const float* base, const float* test, std::int64_t n, DivergenceSums* state) {
  state->cross *= raise(&state->base, row_max(base, n));
  raise(&state->test, row_max(test, n));
  const Vd base_top = splat(state->base.max);
  const Vd test_top = splat(state->test.max);
  Vd base_sum = {};
  Vd test_sum = {};
  Vd cross = {};
  const auto add = [&](Vd b, Vd t) {
    const Vd weight = exp(b - base_top);
    base_sum += weight;
    test_sum += exp(t - test_top);
    cross += weight * (b - t);
  };
  std::int64_t i = 0;
  for (; i + kDoubles <= n; i += kDoubles) add(widen(base + i), widen(test + i));
  // Far below every logit: weight zero, and finite so that zero times the difference is zero.
  if (i < n) add(tail(base + i, n - i, -1e300), tail(test + i, n - i, -1e300));
  state->base.sum += reduce_add(base_sum);
  state->test.sum += reduce_add(test_sum);
  state->cross += reduce_add(cross);
}

}  // namespace cortiq::model::CORTIQ_SIMD
