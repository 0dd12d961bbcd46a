// rows.simd.cpp: norms, rotary embedding, activations and sums over rows.
#include <cmath>
#include <limits>

#include "kernels.hpp"
#include "vector.hpp"

namespace cortiq::model::CORTIQ_SIMD {
namespace {

inline double sum_of_squares(const float* x, std::int64_t n) {
  Vd a = {};
  Vd b = {};
  std::int64_t i = 0;
  for (; i + kLanes <= n; i += kLanes) {
    const Vd u = widen(x + i);
    const Vd v = widen(x + i + kDoubles);
    a = fma(u, u, a);
    b = fma(v, v, b);
  }
  double sum = reduce_add(a + b);
  for (; i < n; ++i) sum += static_cast<double>(x[i]) * static_cast<double>(x[i]);
  return sum;
}

inline Vf gate_value(Gate kind, Vf x) {
  if (kind == Gate::kSilu) return x / (splat(1.0F) + exp(-x));
  if (kind == Gate::kGeluTanh) {
    // 0.5*(1 + tanh(u)) = 1/(1 + exp(-2u)), u = sqrt(2/pi)*(x + 0.044715*x^3)
    const Vf cubic = fma(x * x * x, splat(0.044715F), x);
    return x / (splat(1.0F) + exp(cubic * splat(-1.5957691216F)));
  }
  if (kind == Gate::kSigmoid) return splat(1.0F) / (splat(1.0F) + exp(-x));
  Vf y = x;
  for (int i = 0; i < kLanes; ++i) y[i] = 0.5F * x[i] * std::erfc(-x[i] * 0.70710678F);
  return y;
}

template <typename Fn>
inline void map_row(float* x, std::int64_t n, Fn fn) {
  std::int64_t i = 0;
  for (; i + kLanes <= n; i += kLanes) store(x + i, fn(load(x + i)));
  if (i < n) store_part(x + i, fn(load_part(x + i, n - i)), n - i);
}

/// As map_row, with a second operand.
template <typename Fn>
inline void zip_row(float* x, const float* y, std::int64_t n, Fn fn) {
  std::int64_t i = 0;
  for (; i + kLanes <= n; i += kLanes) store(x + i, fn(load(x + i), load(y + i)));
  if (i < n) store_part(x + i, fn(load_part(x + i, n - i), load_part(y + i, n - i)), n - i);
}

}  // namespace

void rms_norm(ConstRows x, std::int64_t rows, std::int64_t n, const float* weight, double eps,
              Rows out) {
  for (std::int64_t r = 0; r < rows; ++r) {
    const float* from = x.data + r * x.stride;
    float* to = out.data + r * out.stride;
    const double mean = sum_of_squares(from, n) / static_cast<double>(n);
    const float inverse = static_cast<float>(1.0 / std::sqrt(mean + eps));
    for (std::int64_t i = 0; i < n; ++i) to[i] = from[i] * inverse * weight[i];
  }
}

std::int64_t add_rows(Rows h, ConstRows y, std::int64_t rows, std::int64_t n) {
  std::int64_t bad = -1;
  for (std::int64_t r = 0; r < rows; ++r) {
    float* to = h.data + r * h.stride;
    // x - x is zero for finite x and NaN otherwise; the sum keeps a NaN.
    Vf check = {};
    zip_row(to, y.data + r * y.stride, n, [&](Vf a, Vf b) {
      const Vf sum = a + b;
      check += sum - sum;
      return sum;
    });
    if (bad < 0 && reduce_add(check) != 0.0F) bad = r;
  }
  return bad;
}

void add_bias(Rows y, const float* bias, std::int64_t rows, std::int64_t n) {
  for (std::int64_t r = 0; r < rows; ++r) {
    zip_row(y.data + r * y.stride, bias, n, [](Vf a, Vf b) { return a + b; });
  }
}

void scale_rows(Rows y, float factor, std::int64_t rows, std::int64_t n) {
  for (std::int64_t r = 0; r < rows; ++r) {
    map_row(y.data + r * y.stride, n, [=](Vf a) { return a * splat(factor); });
  }
}

void rotate(Rows x, std::int64_t rows, std::int64_t half, const float* cosine, const float* sine) {
  for (std::int64_t r = 0; r < rows; ++r) {
    float* __restrict low = x.data + r * x.stride;
    float* __restrict high = low + half;
    const float* c = cosine + r * half;
    const float* s = sine + r * half;
    for (std::int64_t i = 0; i < half; ++i) {
      const float a = low[i];
      const float b = high[i];
      low[i] = a * c[i] - b * s[i];
      high[i] = b * c[i] + a * s[i];
    }
  }
}

void gate_product(Gate kind, Rows gate, ConstRows up, std::int64_t rows, std::int64_t n) {
  for (std::int64_t r = 0; r < rows; ++r) {
    float* to = gate.data + r * gate.stride;
    const float* by = up.data + r * up.stride;
    if (kind == Gate::kSilu) {
      zip_row(to, by, n, [](Vf g, Vf u) { return gate_value(Gate::kSilu, g) * u; });
    } else {
      zip_row(to, by, n, [=](Vf g, Vf u) { return gate_value(kind, g) * u; });
    }
  }
}

void multiply_gate(Gate kind, Rows x, ConstRows gate, std::int64_t rows, std::int64_t n) {
  for (std::int64_t r = 0; r < rows; ++r) {
    zip_row(x.data + r * x.stride, gate.data + r * gate.stride, n,
            [=](Vf a, Vf g) { return a * gate_value(kind, g); });
  }
}

void add_scaled(Rows h, const std::int32_t* index, const float* factor, ConstRows y,
                std::int64_t rows, std::int64_t n) {
  for (std::int64_t r = 0; r < rows; ++r) {
    const Vf by = splat(factor[r]);
    zip_row(h.data + index[r] * h.stride, y.data + r * y.stride, n,
            [=](Vf a, Vf b) { return fma(by, b, a); });
  }
}

void soft_cap(Rows x, float cap, std::int64_t rows, std::int64_t n) {
  const Vf c = splat(cap);
  for (std::int64_t r = 0; r < rows; ++r) {
    map_row(x.data + r * x.stride, n, [=](Vf a) { return c * tanh(a / c); });
  }
}

void exp_values(const float* x, float* out, std::int64_t n) {
  for (std::int64_t i = 0; i < n; ++i) out[i] = x[i];
  map_row(out, n, [](Vf a) { return exp(a); });
}

}  // namespace cortiq::model::CORTIQ_SIMD
