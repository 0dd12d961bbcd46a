#include "tiny_model.hpp"

#include <cmath>
#include <cstring>
#include <random>

#include "cortiq/model/arch.hpp"

namespace cortiq::model::test {

void MemorySource::set(const std::string& name, std::vector<std::int64_t> shape,
                       std::vector<float> values) {
  entries_[name] = {std::move(shape), std::move(values)};
}

void MemorySource::erase(const std::string& name) { entries_.erase(name); }

std::vector<float>& MemorySource::values(const std::string& name) {
  return entries_.at(name).values;
}
const std::vector<float>& MemorySource::values(const std::string& name) const {
  return entries_.at(name).values;
}

void MemorySource::finish() {
  cmf::Json json = cmf::Json::object();
  json["format"] = "cmf";
  json["version"] = 2;
  json["arch"] = arch;
  header_ = cmf::Header(json);
  infos_.clear();
  index_.clear();
  for (const auto& [name, entry] : entries_) {
    index_[name] = infos_.size();
    infos_.push_back(
        {name, cmf::DType::kF32, entry.shape, entry.values.size() * sizeof(float), std::nullopt});
  }
}

std::optional<std::size_t> MemorySource::find(std::string_view name) const {
  const auto it = index_.find(name);
  if (it == index_.end()) return std::nullopt;
  return it->second;
}

cmf::Payload MemorySource::payload(std::size_t index) const {
  const std::vector<float>& values = entries_.at(infos_[index].name).values;
  return cmf::Payload(std::as_bytes(std::span(values)));
}

namespace {

class Filler {
 public:
  Filler(MemorySource& source, unsigned seed) : source_(source), engine_(seed) {}

  void matrix(const std::string& name, std::int64_t rows, std::int64_t cols, double gain = 1.0) {
    fill(name, {rows, cols}, 0.0, gain / std::sqrt(static_cast<double>(cols)));
  }
  void vector(const std::string& name, std::int64_t size, double mean, double spread) {
    fill(name, {size}, mean, spread);
  }

 private:
  void fill(const std::string& name, std::vector<std::int64_t> shape, double mean, double spread) {
    std::int64_t count = 1;
    for (const std::int64_t d : shape) count *= d;
    // Sums of uniform values: the same on every standard library, unlike std::normal_distribution.
    std::vector<float> values(static_cast<std::size_t>(count));
    for (float& value : values) {
      double sum = 0;
      for (int i = 0; i < 3; ++i) sum += static_cast<double>(engine_()) / 2147483648.0 - 1.0;
      value = static_cast<float>(mean + spread * sum);
    }
    source_.set(name, std::move(shape), std::move(values));
  }

  MemorySource& source_;
  std::mt19937 engine_;
};

}  // namespace

MemorySource make_tiny(const TinyOptions& o) {
  MemorySource source;
  const bool gemma = o.family.rfind("gemma", 0) == 0;
  source.arch = {{"arch_name", o.family},
                 {"hidden_size", o.hidden},
                 {"intermediate_size", o.intermediate},
                 {"num_layers", o.layers},
                 {"num_attention_heads", o.heads},
                 {"num_kv_heads", o.kv_heads},
                 {"head_dim", o.head_dim},
                 {"vocab_size", o.vocab},
                 {"max_position_embeddings", 4096},
                 {"rms_norm_eps", 1e-5},
                 {"norm_style", gemma ? "gemma" : "qwen"},
                 {"rope_theta", 10000.0},
                 {"tie_word_embeddings", o.tied},
                 {"layer_types",
                  std::vector<std::string>(static_cast<std::size_t>(o.layers), "FullAttention")}};
  Filler fill(source, o.seed);
  const double norm = gemma ? 0.0 : 1.0;
  fill.matrix("model.embed_tokens.weight", o.vocab, o.hidden,
              std::sqrt(static_cast<double>(o.hidden)));
  for (std::int64_t layer = 0; layer < o.layers; ++layer) {
    const auto name = [&](std::string_view suffix) { return layer_tensor(layer, suffix); };
    fill.vector(name("input_layernorm.weight"), o.hidden, norm, 0.2);
    fill.vector(name("post_attention_layernorm.weight"), o.hidden, norm, 0.2);
    if (o.sandwich) {
      fill.vector(name("pre_feedforward_layernorm.weight"), o.hidden, norm, 0.2);
      fill.vector(name("post_feedforward_layernorm.weight"), o.hidden, norm, 0.2);
    }
    fill.matrix(name("self_attn.q_proj.weight"), o.heads * o.head_dim, o.hidden, 1.5);
    fill.matrix(name("self_attn.k_proj.weight"), o.kv_heads * o.head_dim, o.hidden, 1.5);
    fill.matrix(name("self_attn.v_proj.weight"), o.kv_heads * o.head_dim, o.hidden);
    fill.matrix(name("self_attn.o_proj.weight"), o.hidden, o.heads * o.head_dim);
    if (o.bias) {
      fill.vector(name("self_attn.q_proj.bias"), o.heads * o.head_dim, 0.1, 0.5);
      fill.vector(name("self_attn.k_proj.bias"), o.kv_heads * o.head_dim, -0.1, 0.5);
      fill.vector(name("self_attn.v_proj.bias"), o.kv_heads * o.head_dim, 0.2, 0.5);
    }
    if (o.qk_norm) {
      fill.vector(name("self_attn.q_norm.weight"), o.head_dim, norm + 0.5, 0.3);
      fill.vector(name("self_attn.k_norm.weight"), o.head_dim, norm, 0.3);
    }
    fill.matrix(name("mlp.gate_proj.weight"), o.intermediate, o.hidden);
    fill.matrix(name("mlp.up_proj.weight"), o.intermediate, o.hidden);
    fill.matrix(name("mlp.down_proj.weight"), o.hidden, o.intermediate);
  }
  fill.vector("model.norm.weight", o.hidden, norm, 0.2);
  if (!o.tied) fill.matrix("lm_head.weight", o.vocab, o.hidden, 2.0);
  return source;
}

void add_experts(MemorySource& source, std::int64_t layer, const TinyExperts& o) {
  const auto hidden = source.arch["hidden_size"].get<std::int64_t>();
  const auto name = [&](const std::string& suffix) { return layer_tensor(layer, suffix); };
  Filler fill(source, o.seed + static_cast<unsigned>(layer));
  for (const char* part : {"gate", "up", "down"})
    source.erase(name("mlp." + std::string(part) + "_proj.weight"));
  const auto mlp = [&](const std::string& prefix, std::int64_t width) {
    fill.matrix(name(prefix + "gate_proj.weight"), width, hidden, 2.0);
    fill.matrix(name(prefix + "up_proj.weight"), width, hidden);
    fill.matrix(name(prefix + "down_proj.weight"), hidden, width);
  };
  fill.matrix(name("mlp.gate.weight"), o.count, hidden, 2.0);
  for (std::int64_t e = 0; e < o.count; ++e) mlp("mlp.experts." + std::to_string(e) + ".", o.width);
  if (o.shared_width > 0) mlp("mlp.shared_expert.", o.shared_width);
  if (o.shared_gate) fill.matrix(name("mlp.shared_expert_gate.weight"), 1, hidden, 2.0);
  if (o.bias) fill.vector(name("mlp.expert_bias"), o.count, 0.0, 0.3);
  source.arch["moe"] = {
      {"num_experts", o.count}, {"top_k", o.top_k}, {"moe_intermediate_size", o.width}};
}

void make_linear(MemorySource& source, std::int64_t layer, const TinyDelta& o) {
  const auto hidden = source.arch["hidden_size"].get<std::int64_t>();
  const auto name = [&](const std::string& suffix) { return layer_tensor(layer, suffix); };
  for (const char* part : {"q", "k", "v", "o"})
    source.erase(name("self_attn." + std::string(part) + "_proj.weight"));
  Filler fill(source, o.seed + static_cast<unsigned>(layer));
  const std::int64_t values = o.value_heads * o.value_dim;
  const std::int64_t channels = 2 * o.key_heads * o.key_dim + values;
  fill.matrix(name("linear_attn.in_proj_qkv.weight"), channels, hidden, 2.0);
  fill.matrix(name("linear_attn.in_proj_z.weight"), values, hidden);
  fill.matrix(name("linear_attn.in_proj_a.weight"), o.value_heads, hidden);
  fill.matrix(name("linear_attn.in_proj_b.weight"), o.value_heads, hidden);
  fill.vector(name("linear_attn.conv1d.weight"), channels * o.taps, 0.1, 0.5);
  source.set(name("linear_attn.conv1d.weight"), {channels, 1, o.taps},
             std::vector<float>(source.values(name("linear_attn.conv1d.weight"))));
  fill.vector(name("linear_attn.A_log"), o.value_heads, -1.0, 1.0);
  fill.vector(name("linear_attn.dt_bias"), o.value_heads, -1.0, 1.0);
  fill.vector(name("linear_attn.norm.weight"), o.value_dim, 1.0, 0.3);
  fill.matrix(name("linear_attn.out_proj.weight"), hidden, values);
  source.arch["layer_types"][static_cast<std::size_t>(layer)] = "LinearAttention";
  source.arch["linear_core"] = {
      {"kind", "gated_delta_net"}, {"num_heads", o.value_heads}, {"value_head_dim", o.value_dim}};
  source.arch["linear_num_key_heads"] = o.key_heads;
  source.arch["linear_key_head_dim"] = o.key_dim;
  source.arch["linear_conv_kernel_dim"] = o.taps;
}

}  // namespace cortiq::model::test
