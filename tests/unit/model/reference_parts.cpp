#include "reference_parts.hpp"

#include <algorithm>
#include <cmath>
#include <utility>

namespace cortiq::model::test {
namespace {

double sigmoid(double x) { return 1 / (1 + std::exp(-x)); }

/// x[at, at + n) divided by its length.
void unit(Values& x, std::size_t at, std::size_t n, double scale) {
  double sum = 1e-6;
  for (std::size_t i = 0; i < n; ++i) sum += x[at + i] * x[at + i];
  for (std::size_t i = 0; i < n; ++i) x[at + i] *= scale / std::sqrt(sum);
}

/// Causal convolution and SiLU.
Values convolve(const Values& x, std::size_t tokens, const std::vector<float>& w) {
  const std::size_t channels = x.size() / tokens;
  const std::size_t taps = w.size() / channels;
  Values y(x.size());
  for (std::size_t t = 0; t < tokens; ++t) {
    for (std::size_t c = 0; c < channels; ++c) {
      double sum = 0;
      for (std::size_t j = 0; j < taps; ++j) {
        if (t + j + 1 < taps) continue;
        sum += static_cast<double>(w[c * taps + j]) * x[(t + j + 1 - taps) * channels + c];
      }
      y[t * channels + c] = sum * sigmoid(sum);
    }
  }
  return y;
}

/// One token of one head: state [dk, dv] is updated, returns q * state.
Values step(const double* q, const double* k, const double* v, double g, double beta,
            std::size_t dk, std::size_t dv, double* state) {
  Values out(dv);
  for (std::size_t j = 0; j < dv; ++j) {
    double seen = 0;
    for (std::size_t i = 0; i < dk; ++i) seen += k[i] * (state[i * dv + j] *= g);
    for (std::size_t i = 0; i < dk; ++i)
      out[j] += q[i] * (state[i * dv + j] += k[i] * beta * (v[j] - seen));
  }
  return out;
}

}  // namespace

Values reference_delta_rule(const cmf::Json& arch, const ReferenceDelta& delta) {
  const std::size_t nk = arch["linear_num_key_heads"];
  const std::size_t dk = arch["linear_key_head_dim"];
  const std::size_t nv = arch["linear_core"]["num_heads"];
  const std::size_t dv = arch["linear_core"]["value_head_dim"];
  Values qkv = convolve(delta.qkv, delta.tokens, delta.conv);
  const std::size_t width = 2 * nk * dk + nv * dv;
  Values out;
  Values state(nv * dk * dv);
  for (std::size_t t = 0; t < delta.tokens; ++t) {
    for (std::size_t head = 0; head < 2 * nk; ++head) {
      unit(qkv, t * width + head * dk, dk,
           head < nk ? 1 / std::sqrt(static_cast<double>(dk)) : 1.0);
    }
    for (std::size_t head = 0; head < nv; ++head) {
      const double* q = qkv.data() + t * width + head / (nv / nk) * dk;
      const double* v = qkv.data() + t * width + 2 * nk * dk + head * dv;
      const double x = delta.a[t * nv + head] + static_cast<double>(delta.dt_bias[head]);
      const double g =
          std::exp(-std::exp(static_cast<double>(delta.a_log[head])) * std::log1p(std::exp(x)));
      const Values o = step(q, q + nk * dk, v, g, sigmoid(delta.b[t * nv + head]), dk, dv,
                            state.data() + head * dk * dv);
      out.insert(out.end(), o.begin(), o.end());
    }
  }
  return out;
}

Values reference_route(const cmf::Json& moe, const Values& logits, const Values& bias) {
  const bool sigmoids = moe.contains("router_sigmoid") && moe["router_sigmoid"].get<bool>();
  const bool renormalised = moe.contains("norm_topk_prob") && moe["norm_topk_prob"].get<bool>();
  const double scale =
      moe.contains("routed_scaling_factor") ? moe["routed_scaling_factor"].get<double>() : 1.0;
  Values scores;
  double sum = 0;
  for (const double x : logits) sum += std::exp(x);
  for (const double x : logits) scores.push_back(sigmoids ? sigmoid(x) : std::exp(x) / sum);
  std::vector<std::pair<double, std::size_t>> order;
  for (std::size_t e = 0; e < scores.size(); ++e) order.emplace_back(-scores[e] - bias[e], e);
  std::sort(order.begin(), order.end());
  order.resize(moe["top_k"].get<std::size_t>());
  double chosen = 0;
  for (const auto& [key, e] : order) chosen += scores[e];
  Values weights(scores.size());
  for (const auto& [key, e] : order) weights[e] = scores[e] / (renormalised ? chosen : 1.0) * scale;
  return weights;
}

}  // namespace cortiq::model::test
