#include "reference_model.hpp"

#include <algorithm>
#include <cmath>
#include <limits>
#include <utility>

#include "reference_parts.hpp"

namespace cortiq::model::test {
namespace {

class Reference {
 public:
  explicit Reference(const MemorySource& source) : source_(source), arch_(source.header().arch()) {
    hidden_ = arch_["hidden_size"];
    heads_ = arch_["num_attention_heads"];
    kv_heads_ = arch_["num_kv_heads"];
    head_dim_ = arch_["head_dim"];
    eps_ = arch_["rms_norm_eps"];
    gemma_ = arch_["norm_style"] == "gemma";
  }

  ReferenceRun run(const std::vector<std::int32_t>& ids) {
    tokens_ = ids.size();
    ReferenceRun out;
    Values h = embed(ids);
    out.layers.push_back(h);
    for (std::size_t layer = 0; layer < arch_["num_layers"].get<std::size_t>(); ++layer) {
      run_layer(layer, h, out);
      out.layers.push_back(h);
    }
    const Values x = norm_all(h, "model.norm.weight", hidden_);
    out.inputs["head"] = x;
    const char* head =
        source_.find("lm_head.weight") ? "lm_head.weight" : "model.embed_tokens.weight";
    out.logits = linear(x, head, hidden_);
    const double cap = number("final_logit_softcapping", 0);
    for (double& v : out.logits) v = cap > 0 ? cap * std::tanh(v / cap) : v;
    return out;
  }

 private:
  double number(const char* key, double fallback) const {
    return arch_.contains(key) ? arch_[key].get<double>() : fallback;
  }
  static std::string name(std::size_t layer, const std::string& suffix) {
    return "model.layers." + std::to_string(layer) + "." + suffix;
  }

  Values embed(const std::vector<std::int32_t>& ids) const {
    const std::vector<float>& table = source_.values("model.embed_tokens.weight");
    Values h;
    for (const std::int32_t id : ids) {
      for (std::size_t i = 0; i < hidden_; ++i) {
        h.push_back(table[static_cast<std::size_t>(id) * hidden_ + i] *
                    number("embed_multiplier", 1.0));
      }
    }
    return h;
  }

  Values linear(const Values& x, const std::string& tensor, std::size_t cols) const {
    const std::vector<float>& w = source_.values(tensor);
    const std::size_t rows = w.size() / cols;
    Values y(x.size() / cols * rows);
    for (std::size_t t = 0; t < x.size() / cols; ++t) {
      for (std::size_t r = 0; r < rows; ++r) {
        double sum = 0;
        for (std::size_t c = 0; c < cols; ++c)
          sum += x[t * cols + c] * static_cast<double>(w[r * cols + c]);
        y[t * rows + r] = sum;
      }
    }
    return y;
  }

  /// Norms every run of n values.
  Values norm_all(const Values& x, const std::string& tensor, std::size_t n) const {
    const std::vector<float>& w = source_.values(tensor);
    Values y(x.size());
    for (std::size_t r = 0; r < x.size() / n; ++r) {
      double sum = 0;
      for (std::size_t i = 0; i < n; ++i) sum += x[r * n + i] * x[r * n + i];
      const double inverse = 1 / std::sqrt(sum / static_cast<double>(n) + eps_);
      for (std::size_t i = 0; i < n; ++i) {
        y[r * n + i] = x[r * n + i] * inverse * ((gemma_ ? 1.0 : 0.0) + static_cast<double>(w[i]));
      }
    }
    return y;
  }

  bool local(std::size_t layer) const {
    const auto& types = arch_["layer_types"];
    for (const auto& type : types) {
      if (type == "SlidingAttention") return types[layer] == "SlidingAttention";
    }
    if (!arch_.contains("sliding_window") || !arch_.contains("sliding_window_pattern"))
      return false;
    return (layer + 1) % arch_["sliding_window_pattern"].get<std::size_t>() != 0;
  }

  double frequency(std::size_t i, std::size_t dims, bool sliding) const {
    const bool own = sliding && arch_.contains("rope_local_base_freq");
    const double base = own ? number("rope_local_base_freq", 0) : number("rope_theta", 10000);
    double f = std::pow(base, -2.0 * static_cast<double>(i) / static_cast<double>(dims));
    if (own) return f;
    if (arch_.contains("yarn")) f = yarn(f, i, dims, base);
    if (arch_.contains("rope_freq_factors")) f /= arch_["rope_freq_factors"][i].get<double>();
    return f;
  }

  double yarn(double f, std::size_t i, std::size_t dims, double base) const {
    const auto& y = arch_["yarn"];
    const auto at = [&](double rotations) {
      return static_cast<double>(dims) *
             std::log(y["original_max_position_embeddings"].get<double>() /
                      (2 * 3.14159265358979324 * rotations)) /
             (2 * std::log(base));
    };
    const double low = std::max(std::floor(at(y["beta_fast"])), 0.0);
    const double high = std::min(std::ceil(at(y["beta_slow"])), static_cast<double>(dims) - 1);
    const double ramp = std::clamp((static_cast<double>(i) - low) / (high - low), 0.0, 1.0);
    return f / y["factor"].get<double>() * ramp + f * (1 - ramp);
  }

  void rotate(Values& x, std::size_t heads, bool sliding) const {
    const auto dims = static_cast<std::size_t>(static_cast<double>(head_dim_) *
                                               number("partial_rotary_factor", 1.0));
    const bool own = sliding && arch_.contains("rope_local_base_freq");
    const double size =
        arch_.contains("yarn") && !own ? arch_["yarn"]["attention_factor"].get<double>() : 1.0;
    for (std::size_t t = 0; t < tokens_; ++t) {
      for (std::size_t head = 0; head < heads; ++head) {
        double* v = x.data() + (t * heads + head) * head_dim_;
        for (std::size_t i = 0; i < dims / 2; ++i) {
          const double angle = static_cast<double>(t) * frequency(i, dims, sliding);
          const double a = v[i];
          const double b = v[i + dims / 2];
          v[i] = size * (a * std::cos(angle) - b * std::sin(angle));
          v[i + dims / 2] = size * (b * std::cos(angle) + a * std::sin(angle));
        }
      }
    }
  }

  Values project(const Values& x, std::size_t layer, const std::string& which) const {
    Values y = linear(x, name(layer, "self_attn." + which + "_proj.weight"), hidden_);
    const std::string bias = name(layer, "self_attn." + which + "_proj.bias");
    if (!source_.find(bias)) return y;
    const std::vector<float>& b = source_.values(bias);
    for (std::size_t i = 0; i < y.size(); ++i) y[i] += static_cast<double>(b[i % b.size()]);
    return y;
  }

  Values mix(const Values& x, std::size_t layer) const {
    if (arch_["layer_types"][layer] == "LinearAttention") return mix_linear(x, layer);
    const Values both = project(x, layer, "q");
    const bool gated = both.size() == 2 * tokens_ * heads_ * head_dim_;
    Values q;
    Values gate;
    for (std::size_t i = 0; i < both.size(); ++i)
      (gated && i / head_dim_ % 2 == 1 ? gate : q).push_back(both[i]);
    Values k = project(x, layer, "k");
    const Values v = project(x, layer, "v");
    const bool normed = source_.find(name(layer, "self_attn.q_norm.weight")).has_value();
    const bool after =
        arch_.contains("qk_norm_after_rope") && arch_["qk_norm_after_rope"].get<bool>();
    const auto norm = [&] {
      q = norm_all(q, name(layer, "self_attn.q_norm.weight"), head_dim_);
      k = norm_all(k, name(layer, "self_attn.k_norm.weight"), head_dim_);
    };
    if (normed && !after) norm();
    rotate(q, heads_, local(layer));
    rotate(k, kv_heads_, local(layer));
    if (normed && after) norm();
    Values out(tokens_ * heads_ * head_dim_);
    for (std::size_t t = 0; t < tokens_; ++t) {
      for (std::size_t head = 0; head < heads_; ++head) attend(q, k, v, t, head, layer, out);
    }
    for (std::size_t i = 0; i < gate.size(); ++i) out[i] *= sigmoid(gate[i]);
    return out;
  }

  void attend(const Values& q, const Values& k, const Values& v, std::size_t t, std::size_t head,
              std::size_t layer, Values& out) const {
    const bool sliding = local(layer);
    const std::size_t kv = head * kv_heads_ / heads_;
    const double scale =
        1 / std::sqrt(number("query_pre_attn_scalar", static_cast<double>(head_dim_)));
    const double cap = number("attn_logit_softcapping", 0);
    const auto window = static_cast<std::size_t>(sliding ? number("sliding_window", 0) : 0);
    const std::size_t first = window > 0 && t + 1 > window ? t + 1 - window : 0;
    Values p;
    double sum = 0;
    double top = -std::numeric_limits<double>::infinity();
    for (std::size_t s = first; s <= t; ++s) {
      double dot = 0;
      for (std::size_t d = 0; d < head_dim_; ++d) {
        dot += q[(t * heads_ + head) * head_dim_ + d] * k[(s * kv_heads_ + kv) * head_dim_ + d];
      }
      p.push_back(cap > 0 ? cap * std::tanh(dot * scale / cap) : dot * scale);
      top = std::max(top, p.back());
    }
    if (has(layer, "self_attn.sinks")) {
      const auto sink = static_cast<double>(source_.values(name(layer, "self_attn.sinks"))[head]);
      top = std::max(top, sink);
      sum = std::exp(sink - top);
    }
    for (double& value : p) sum += value = std::exp(value - top);
    for (std::size_t s = first; s <= t; ++s) {
      for (std::size_t d = 0; d < head_dim_; ++d) {
        out[(t * heads_ + head) * head_dim_ + d] +=
            p[s - first] / sum * v[(s * kv_heads_ + kv) * head_dim_ + d];
      }
    }
  }

  bool has(std::size_t layer, const char* suffix) const {
    return source_.find(name(layer, suffix)).has_value();
  }
  static double sigmoid(double x) { return 1 / (1 + std::exp(-x)); }

  Values mix_linear(const Values& x, std::size_t layer) const {
    const auto get = [&](const std::string& suffix) -> const std::vector<float>& {
      return source_.values(name(layer, "linear_attn." + suffix));
    };
    const auto in = [&](const std::string& part) {
      return linear(x, name(layer, "linear_attn.in_proj_" + part + ".weight"), hidden_);
    };
    const ReferenceDelta delta{in("qkv"),    in("a"),       in("b"), tokens_, get("conv1d.weight"),
                               get("A_log"), get("dt_bias")};
    Values out = reference_delta_rule(arch_, delta);
    const bool gemma = std::exchange(gemma_, false);
    out = norm_all(out, name(layer, "linear_attn.norm.weight"),
                   arch_["linear_core"]["value_head_dim"]);
    gemma_ = gemma;
    const Values z = in("z");
    for (std::size_t i = 0; i < out.size(); ++i) out[i] *= z[i] * sigmoid(z[i]);
    return out;
  }

  double activate(double x) const {
    const std::string kind =
        arch_.contains("hidden_act") ? arch_["hidden_act"].get<std::string>() : "silu";
    if (kind == "silu") return x / (1 + std::exp(-x));
    if (kind == "gelu") return 0.5 * x * (1 + std::erf(x / std::sqrt(2.0)));
    return 0.5 * x *
           (1 + std::tanh(std::sqrt(2 / 3.14159265358979324) * (x + 0.044715 * x * x * x)));
  }

  static void add(Values& h, const Values& y) {
    for (std::size_t i = 0; i < h.size(); ++i) h[i] += y[i];
  }

  Values mlp(const Values& x, const std::string& prefix, const std::string& key,
             ReferenceRun& out) const {
    Values gate = linear(x, prefix + "gate_proj.weight", hidden_);
    const Values up = linear(x, prefix + "up_proj.weight", hidden_);
    for (std::size_t i = 0; i < gate.size(); ++i) gate[i] = activate(gate[i]) * up[i];
    out.inputs[key] = gate;
    return linear(gate, prefix + "down_proj.weight", gate.size() / (x.size() / hidden_));
  }

  Values mix_experts(const Values& x, std::size_t layer, ReferenceRun& out) const {
    const Values logits = linear(x, name(layer, "mlp.gate.weight"), hidden_);
    const std::size_t count = logits.size() / tokens_;
    const std::string key = std::to_string(layer) + ".expert-";
    Values bias(count);
    if (has(layer, "mlp.expert_bias")) {
      const std::vector<float>& values = source_.values(name(layer, "mlp.expert_bias"));
      bias.assign(values.begin(), values.end());
    }
    Values sum(x.size());
    for (std::size_t e = 0; e < count; ++e) {
      Values rows;
      std::vector<std::pair<std::size_t, double>> places;
      for (std::size_t t = 0; t < tokens_; ++t) {
        const auto row = logits.begin() + static_cast<std::ptrdiff_t>(t * count);
        const double weight = reference_route(
            arch_["moe"], Values(row, row + static_cast<std::ptrdiff_t>(count)), bias)[e];
        if (weight == 0) continue;
        places.emplace_back(t, weight);
        for (std::size_t i = 0; i < hidden_; ++i) rows.push_back(x[t * hidden_ + i]);
      }
      if (places.empty()) continue;
      out.inputs[key + "in." + std::to_string(e)] = rows;
      const Values y = mlp(rows, name(layer, "mlp.experts." + std::to_string(e) + "."),
                           key + "down." + std::to_string(e), out);
      for (std::size_t i = 0; i < y.size(); ++i) {
        const auto& [t, weight] = places[i / hidden_];
        sum[t * hidden_ + i % hidden_] += weight * y[i];
      }
    }
    if (!has(layer, "mlp.shared_expert.up_proj.weight")) return sum;
    const Values y =
        mlp(x, name(layer, "mlp.shared_expert."), std::to_string(layer) + ".shared-down", out);
    Values gate(tokens_, 1.0);
    if (has(layer, "mlp.shared_expert_gate.weight")) {
      gate = linear(x, name(layer, "mlp.shared_expert_gate.weight"), hidden_);
      for (double& value : gate) value = sigmoid(value);
    }
    for (std::size_t i = 0; i < y.size(); ++i) sum[i] += gate[i / hidden_] * y[i];
    return sum;
  }

  void run_layer(std::size_t layer, Values& h, ReferenceRun& out) const {
    const auto keep = [&](const char* role, const Values& x) {
      out.inputs[std::to_string(layer) + "." + role] = x;
    };
    const bool sandwich = source_.find(name(layer, "pre_feedforward_layernorm.weight")).has_value();
    const Values x = norm_all(h, name(layer, "input_layernorm.weight"), hidden_);
    keep("in", x);
    const Values mixed = mix(x, layer);
    keep("mixout", mixed);
    const bool linear_mixer = arch_["layer_types"][layer] == "LinearAttention";
    Values branch = linear(
        mixed,
        name(layer, linear_mixer ? "linear_attn.out_proj.weight" : "self_attn.o_proj.weight"),
        mixed.size() / tokens_);
    if (sandwich)
      branch = norm_all(branch, name(layer, "post_attention_layernorm.weight"), hidden_);
    add(h, branch);
    const Values m = norm_all(h,
                              name(layer, sandwich ? "pre_feedforward_layernorm.weight"
                                                   : "post_attention_layernorm.weight"),
                              hidden_);
    keep("mlp", m);
    if (has(layer, "mlp.gate.weight")) {
      branch = mix_experts(m, layer, out);
    } else {
      branch = mlp(m, name(layer, "mlp."), std::to_string(layer) + ".down", out);
    }
    if (sandwich)
      branch = norm_all(branch, name(layer, "post_feedforward_layernorm.weight"), hidden_);
    add(h, branch);
  }

  const MemorySource& source_;
  const cmf::Json& arch_;
  std::size_t hidden_ = 0;
  std::size_t heads_ = 0;
  std::size_t kv_heads_ = 0;
  std::size_t head_dim_ = 0;
  std::size_t tokens_ = 0;
  double eps_ = 0;
  mutable bool gemma_ = false;
};

}  // namespace

ReferenceRun run_reference(const MemorySource& source, const std::vector<std::int32_t>& ids) {
  return Reference(source).run(ids);
}

}  // namespace cortiq::model::test
