#include "cortiq/model/layer_weights.hpp"

#include <initializer_list>

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
  with_context(fmt::format("{}: tensor {}", source.path().string(), name), [&] {
    const cmf::Payload payload = source.payload(index);
    const codec::RowDecoder decoder(info.dtype, info.shape, payload.bytes());
    CORTIQ_ASSERT(decoder.rows() == out.rows() && decoder.cols() == out.cols());
    decoder.decode_all(out, pool);
  });
  source.release(index);
}

LinearStack load_stack(const cmf::Source& source, std::int64_t layer,
                       std::initializer_list<std::string_view> suffixes, Pool& pool) {
  LinearStack stack;
  for (const std::string_view suffix : suffixes) {
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
  return stack;
}

}  // namespace

std::vector<float> load_vector(const cmf::Source& source, std::string_view name, float offset) {
  const std::size_t index = index_of(source, name);
  const cmf::TensorInfo& info = source.tensors()[index];
  std::vector<float> values(static_cast<std::size_t>(info.elements()));
  with_context(fmt::format("{}: tensor {}", source.path().string(), name), [&] {
    const cmf::Payload payload = source.payload(index);
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
  const auto norm = [&](std::string_view suffix) {
    return load_norm(arch, source, layer_tensor(layer, suffix));
  };
  LayerWeights weights;
  weights.input_norm = norm("input_layernorm.weight");
  weights.post_attention_norm = norm("post_attention_layernorm.weight");
  if (arch.sandwich_norms) {
    weights.pre_mlp_norm = norm("pre_feedforward_layernorm.weight");
    weights.post_mlp_norm = norm("post_feedforward_layernorm.weight");
  }
  if (arch.qk_norm) {
    weights.q_norm = norm("self_attn.q_norm.weight");
    weights.k_norm = norm("self_attn.k_norm.weight");
  }
  if (arch.qkv_bias) {
    for (const std::string_view suffix :
         {"self_attn.q_proj.bias", "self_attn.k_proj.bias", "self_attn.v_proj.bias"}) {
      const std::vector<float> bias = load_vector(source, layer_tensor(layer, suffix), 0.0F);
      weights.qkv_bias.insert(weights.qkv_bias.end(), bias.begin(), bias.end());
    }
  }
  weights.in = load_stack(
      source, layer,
      {"self_attn.q_proj.weight", "self_attn.k_proj.weight", "self_attn.v_proj.weight"}, pool);
  weights.mix_out = load_stack(source, layer, {"self_attn.o_proj.weight"}, pool);
  weights.mlp = load_stack(source, layer, {"mlp.gate_proj.weight", "mlp.up_proj.weight"}, pool);
  weights.down = load_stack(source, layer, {"mlp.down_proj.weight"}, pool);
  return weights;
}

}  // namespace cortiq::model
