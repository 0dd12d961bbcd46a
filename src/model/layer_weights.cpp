#include "cortiq/model/layer_weights.hpp"

#include <array>
#include <cmath>
#include <span>

#include "cortiq/codec/decode.hpp"
#include "cortiq/support/error.hpp"

namespace cortiq::model {
namespace {

std::size_t index_of(const cmf::Source& source, std::string_view name) {
  const auto index = source.find(name);
  if (!index) fail(ErrorKind::kInput, "{}: tensor {} is missing", source.path().string(), name);
  return *index;
}

/// Decodes a whole tensor into `out`, whose shape read_arch has checked.
void decode_tensor(const cmf::Source& source, std::string_view name, MatrixView<float> out,
                   Pool& pool) {
  const std::size_t index = index_of(source, name);
  const cmf::TensorInfo& info = source.tensors()[index];
  const cmf::Payload payload = source.payload(index);  // its errors name file and tensor
  with_context(fmt::format("{}: tensor {}", source.path().string(), name), [&] {
    const codec::RowDecoder decoder(info.dtype, info.shape, payload.bytes());
    CORTIQ_ASSERT(decoder.rows() == out.rows() && decoder.cols() == out.cols());
    decoder.decode_all(out, pool);
  });
  source.release(index);
}

/// Decodes into `stack`, whose memory is reused.
void fill_stack(const cmf::Source& source, std::int64_t layer,
                std::span<const std::string> suffixes, LinearStack& stack, Pool& pool) {
  stack.rows = 0;
  stack.cols = 0;
  stack.parts.clear();
  for (const std::string& suffix : suffixes) {
    std::string name = layer_tensor(layer, suffix);
    const cmf::TensorInfo& info = source.tensors()[index_of(source, name)];
    CORTIQ_ASSERT(info.shape.size() == 2 && (stack.cols == 0 || stack.cols == info.shape[1]));
    stack.cols = info.shape[1];
    stack.parts.push_back({std::move(name), stack.rows, info.shape[0]});
    stack.rows += info.shape[0];
  }
  stack.values.resize(static_cast<std::size_t>(stack.rows * stack.cols));
  for (std::size_t i = 0; i < stack.parts.size(); ++i) {
    decode_tensor(source, stack.parts[i].name, stack.part(i), pool);
  }
}

class Loader {
 public:
  Loader(const Arch& arch, const cmf::Source& source, std::int64_t layer, Pool& pool)
      : arch_(arch), source_(source), layer_(layer), pool_(pool) {}

  void attention(LayerWeights& weights) const {
    if (arch_.qk_norm) {
      weights.q_norm = norm("self_attn.q_norm.weight");
      weights.k_norm = norm("self_attn.k_norm.weight");
    }
    if (arch_.qkv_bias) {
      for (const std::string_view suffix :
           {"self_attn.q_proj.bias", "self_attn.k_proj.bias", "self_attn.v_proj.bias"}) {
        const std::vector<float> bias = vector(suffix);
        weights.qkv_bias.insert(weights.qkv_bias.end(), bias.begin(), bias.end());
      }
    }
    if (has("self_attn.sinks")) weights.sinks = vector("self_attn.sinks");
    weights.in =
        stack({"self_attn.q_proj.weight", "self_attn.k_proj.weight", "self_attn.v_proj.weight"});
    weights.mix_out = stack({"self_attn.o_proj.weight"});
  }

  void delta_net(LayerWeights& weights) const {
    const std::vector<float> taps = vector("linear_attn.conv1d.weight");
    const std::int64_t channels = arch_.delta_net->conv_width();
    const std::int64_t count = arch_.delta_net->taps;
    weights.delta.taps.resize(taps.size());
    for (std::int64_t c = 0; c < channels; ++c) {
      for (std::int64_t tap = 0; tap < count; ++tap) {
        weights.delta.taps[static_cast<std::size_t>(tap * channels + c)] =
            taps[static_cast<std::size_t>(c * count + tap)];
      }
    }
    weights.delta.decay = vector("linear_attn.A_log");
    for (float& value : weights.delta.decay)
      value = static_cast<float>(std::exp(static_cast<double>(value)));
    weights.delta.time_bias = vector("linear_attn.dt_bias");
    weights.delta.norm = vector("linear_attn.norm.weight");
    weights.in = stack({"linear_attn.in_proj_qkv.weight", "linear_attn.in_proj_z.weight",
                        "linear_attn.in_proj_a.weight", "linear_attn.in_proj_b.weight"});
    weights.mix_out = stack({"linear_attn.out_proj.weight"});
  }

  void experts(LayerWeights& weights) const {
    std::vector<std::string> router = {"mlp.gate.weight"};
    if (has("mlp.shared_expert.gate_proj.weight")) {
      weights.mlp =
          stack({"mlp.shared_expert.gate_proj.weight", "mlp.shared_expert.up_proj.weight"});
      weights.down = stack({"mlp.shared_expert.down_proj.weight"});
      if (has("mlp.shared_expert_gate.weight"))
        router.emplace_back("mlp.shared_expert_gate.weight");
    }
    weights.router = stack(router);
    if (has("mlp.expert_bias")) weights.expert_bias = vector("mlp.expert_bias");
  }

  void mlp(LayerWeights& weights) const {
    weights.mlp = stack({"mlp.gate_proj.weight", "mlp.up_proj.weight"});
    weights.down = stack({"mlp.down_proj.weight"});
  }

  [[nodiscard]] std::vector<float> norm(std::string_view suffix) const {
    return load_norm(arch_, source_, layer_tensor(layer_, suffix));
  }

 private:
  [[nodiscard]] bool has(std::string_view suffix) const {
    return source_.find(layer_tensor(layer_, suffix)).has_value();
  }
  [[nodiscard]] std::vector<float> vector(std::string_view suffix) const {
    return load_vector(source_, layer_tensor(layer_, suffix), 0.0F);
  }
  [[nodiscard]] LinearStack stack(const std::vector<std::string>& suffixes) const {
    LinearStack stack;
    fill_stack(source_, layer_, suffixes, stack, pool_);
    return stack;
  }

  const Arch& arch_;
  const cmf::Source& source_;
  std::int64_t layer_;
  Pool& pool_;
};

}  // namespace

void reload_stack(const cmf::Source& source, LinearStack& stack, Pool& pool) {
  for (std::size_t i = 0; i < stack.parts.size(); ++i)
    decode_tensor(source, stack.parts[i].name, stack.part(i), pool);
}

std::vector<float> load_vector(const cmf::Source& source, std::string_view name, float offset) {
  const std::size_t index = index_of(source, name);
  const cmf::TensorInfo& info = source.tensors()[index];
  std::vector<float> values(static_cast<std::size_t>(info.elements()));
  const cmf::Payload payload = source.payload(index);  // its errors name file and tensor
  with_context(fmt::format("{}: tensor {}", source.path().string(), name), [&] {
    const codec::RowDecoder decoder(info.dtype, info.shape, payload.bytes());
    CORTIQ_ASSERT(decoder.rows() * decoder.cols() == info.elements());
    decoder.decode(0, {values.data(), decoder.rows(), decoder.cols()});
  });
  source.release(index);
  if (offset != 0.0F) {
    for (float& value : values) value += offset;
  }
  return values;
}

std::vector<float> load_norm(const Arch& arch, const cmf::Source& source, std::string_view name) {
  return load_vector(source, name, arch.norm_style == NormStyle::kGemma ? 1.0F : 0.0F);
}

LayerWeights load_layer(const Arch& arch, const cmf::Source& source, std::int64_t layer,
                        Pool& pool) {
  const Loader loader(arch, source, layer, pool);
  LayerWeights weights;
  weights.input_norm = loader.norm("input_layernorm.weight");
  weights.post_attention_norm = loader.norm("post_attention_layernorm.weight");
  if (arch.sandwich_norms) {
    weights.pre_mlp_norm = loader.norm("pre_feedforward_layernorm.weight");
    weights.post_mlp_norm = loader.norm("post_feedforward_layernorm.weight");
  }
  if (is_linear(arch, layer)) {
    loader.delta_net(weights);
  } else {
    loader.attention(weights);
  }
  if (has_experts(arch, layer)) {
    loader.experts(weights);
  } else {
    loader.mlp(weights);
  }
  return weights;
}

std::uint64_t layer_weight_bytes(const cmf::Source& source, std::int64_t layer) {
  const std::string prefix = layer_tensor(layer, "");
  std::int64_t values = 0;
  for (const cmf::TensorInfo& info : source.tensors()) {
    if (info.name.starts_with(prefix) && info.name.find(".experts.") == std::string::npos)
      values += info.elements();
  }
  return static_cast<std::uint64_t>(values) * sizeof(float);
}

void load_expert(const cmf::Source& source, std::int64_t layer, std::int64_t expert,
                 ExpertWeights& out, Pool& pool) {
  const std::string prefix = fmt::format("mlp.experts.{}.", expert);
  const std::array<std::string, 2> mlp = {prefix + "gate_proj.weight", prefix + "up_proj.weight"};
  const std::array<std::string, 1> down = {prefix + "down_proj.weight"};
  fill_stack(source, layer, mlp, out.mlp, pool);
  fill_stack(source, layer, down, out.down, pool);
}

}  // namespace cortiq::model
