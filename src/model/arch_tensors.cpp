#include "arch_tensors.hpp"

#include <algorithm>
#include <array>
#include <span>

#include "cortiq/support/error.hpp"

namespace cortiq::model {
namespace {

std::string shape_text(std::span<const std::int64_t> shape) {
  std::string text = "[";
  for (const std::int64_t d : shape) text += (text.size() > 1 ? ", " : "") + std::to_string(d);
  return text + "]";
}

class Checker {
 public:
  explicit Checker(const cmf::Source& source) : source_(source), where_(source.path().string()) {}

  [[nodiscard]] bool has(const std::string& name) const { return source_.find(name).has_value(); }

  void shape(const std::string& name, std::initializer_list<std::int64_t> expected) const {
    const auto index = source_.find(name);
    if (!index) fail(ErrorKind::kInput, "{}: tensor {} is missing", where_, name);
    const cmf::TensorInfo& info = source_.tensors()[*index];
    const std::span<const std::int64_t> want(expected.begin(), expected.size());
    if (!std::equal(info.shape.begin(), info.shape.end(), want.begin(), want.end())) {
      fail(ErrorKind::kInput, "{}: tensor {} has shape {}; the header asks for {}", where_, name,
           shape_text(info.shape), shape_text(want));
    }
    if (!cmf::has_decoder(info.dtype)) {
      fail(ErrorKind::kUnsupported, "{}: tensor {} is of type {}, which cannot be decoded", where_,
           name, cmf::dtype_name(info.dtype));
    }
  }

  /// All of `names` exist or none does.
  [[nodiscard]] bool all_or_none(std::span<const std::string> names) const {
    std::size_t present = 0;
    std::string missing;
    for (const std::string& name : names) {
      if (has(name)) {
        ++present;
      } else {
        missing = name;
      }
    }
    if (present != 0 && present != names.size()) {
      fail(ErrorKind::kInput, "{}: tensor {} is missing, but its companions are there ({} of {})",
           where_, missing, present, names.size());
    }
    return present != 0;
  }

  [[nodiscard]] std::int64_t rows(const std::string& name) const {
    const auto index = source_.find(name);
    if (!index) fail(ErrorKind::kInput, "{}: tensor {} is missing", where_, name);
    const cmf::TensorInfo& info = source_.tensors()[*index];
    return info.shape.empty() ? 0 : info.shape[0];
  }

  [[nodiscard]] const std::string& where() const { return where_; }

 private:
  const cmf::Source& source_;
  std::string where_;
};

/// Tensors that a listed family does not have and that would change its output.
void refuse_foreign(const Checker& check, const Arch& arch, std::int64_t layer) {
  constexpr std::array<std::string_view, 7> kForeign = {
      "self_attn.g_proj.weight", "self_attn.o_proj.bias", "mlp.gate_proj.bias", "mlp.up_proj.bias",
      "mlp.down_proj.bias",      "mlp.per_expert_scale",  "layer_scalar"};
  for (const std::string_view suffix : kForeign) {
    const std::string name = layer_tensor(layer, suffix);
    if (check.has(name)) {
      fail(ErrorKind::kUnsupported,
           "{}: architecture '{}' with the tensor {} has no forward pass here", check.where(),
           arch.name, name);
    }
  }
}

/// `now` unless an earlier layer of the same kind, `first`, had it otherwise.
bool check_same(const Checker& check, std::int64_t layer, std::int64_t first, bool before, bool now,
                std::string_view what) {
  if (layer > first && before != now) {
    fail(ErrorKind::kInput, "{}: layer {} and layer {} differ: only one of them has {}",
         check.where(), layer, first, what);
  }
  return now;
}

/// Looks at layer `layer`; the first layer with attention decides what all of them have.
void check_attention(const Checker& check, Arch& arch, std::int64_t layer, std::int64_t first) {
  const auto name = [&](std::string_view suffix) { return layer_tensor(layer, suffix); };
  const std::int64_t k_rows = arch.kv_heads * arch.head_dim;
  const std::int64_t v_rows = arch.kv_heads * arch.v_head_dim;
  const bool gated =
      check.rows(name("self_attn.q_proj.weight")) == 2 * arch.heads * arch.head_dim &&
      arch.v_head_dim == arch.head_dim;
  arch.output_gate = check_same(check, layer, first, arch.output_gate, gated, "an output gate");
  const std::int64_t q_rows = query_width(arch);
  check.shape(name("self_attn.q_proj.weight"), {q_rows, arch.hidden});
  check.shape(name("self_attn.k_proj.weight"), {k_rows, arch.hidden});
  check.shape(name("self_attn.v_proj.weight"), {v_rows, arch.hidden});
  check.shape(name("self_attn.o_proj.weight"), {arch.hidden, arch.heads * arch.v_head_dim});
  const std::array<std::string, 3> biases = {
      name("self_attn.q_proj.bias"), name("self_attn.k_proj.bias"), name("self_attn.v_proj.bias")};
  arch.qkv_bias = check_same(check, layer, first, arch.qkv_bias, check.all_or_none(biases),
                             "biases of q, k and v");
  if (arch.qkv_bias) {
    check.shape(biases[0], {q_rows});
    check.shape(biases[1], {k_rows});
    check.shape(biases[2], {v_rows});
  }
  const std::array<std::string, 2> norms = {name("self_attn.q_norm.weight"),
                                            name("self_attn.k_norm.weight")};
  arch.qk_norm =
      check_same(check, layer, first, arch.qk_norm, check.all_or_none(norms), "norms of q and k");
  if (arch.qk_norm) {
    check.shape(norms[0], {arch.head_dim});
    check.shape(norms[1], {arch.head_dim});
  }
  if (check.has(name("self_attn.sinks"))) check.shape(name("self_attn.sinks"), {arch.heads});
}

void check_delta_net(const Checker& check, const Arch& arch, std::int64_t layer) {
  const auto name = [&](std::string_view suffix) { return layer_tensor(layer, suffix); };
  const DeltaNet& net = *arch.delta_net;
  check.shape(name("linear_attn.in_proj_qkv.weight"), {net.conv_width(), arch.hidden});
  check.shape(name("linear_attn.in_proj_z.weight"), {net.value_width(), arch.hidden});
  check.shape(name("linear_attn.in_proj_a.weight"), {net.value_heads, arch.hidden});
  check.shape(name("linear_attn.in_proj_b.weight"), {net.value_heads, arch.hidden});
  check.shape(name("linear_attn.conv1d.weight"), {net.conv_width(), 1, net.taps});
  check.shape(name("linear_attn.A_log"), {net.value_heads});
  check.shape(name("linear_attn.dt_bias"), {net.value_heads});
  check.shape(name("linear_attn.norm.weight"), {net.value_dim});
  check.shape(name("linear_attn.out_proj.weight"), {arch.hidden, net.value_width()});
  if (check.has(name("linear_attn.conv1d.bias"))) {
    fail(ErrorKind::kUnsupported, "{}: tensor {} has no forward pass here", check.where(),
         name("linear_attn.conv1d.bias"));
  }
}

/// gate, up and down below `prefix`; returns their width.
std::int64_t check_mlp(const Checker& check, const Arch& arch, const std::string& prefix) {
  const std::int64_t width = check.rows(prefix + "gate_proj.weight");
  if (width < 1)
    fail(ErrorKind::kInput, "{}: tensor {}gate_proj.weight has no rows", check.where(), prefix);
  check.shape(prefix + "gate_proj.weight", {width, arch.hidden});
  check.shape(prefix + "up_proj.weight", {width, arch.hidden});
  check.shape(prefix + "down_proj.weight", {arch.hidden, width});
  return width;
}

void check_experts(const Checker& check, Arch& arch, std::int64_t layer) {
  const auto name = [&](std::string_view suffix) { return layer_tensor(layer, suffix); };
  if (!arch.experts) {
    fail(ErrorKind::kInput, "{}: layer {} has the router {}, but the header has no record arch.moe",
         check.where(), layer, name("mlp.gate.weight"));
  }
  std::int64_t count = 0;
  for (;; ++count) {
    const std::string prefix = layer_tensor(layer, fmt::format("mlp.experts.{}.", count));
    if (!check.has(prefix + "gate_proj.weight")) break;
    arch.experts->width = std::max(arch.experts->width, check_mlp(check, arch, prefix));
  }
  if (count < arch.experts->top_k) {
    fail(ErrorKind::kInput, "{}: layer {} has {} experts, but arch.moe.top_k is {}", check.where(),
         layer, count, arch.experts->top_k);
  }
  check.shape(name("mlp.gate.weight"), {count, arch.hidden});
  if (check.has(name("mlp.expert_bias"))) check.shape(name("mlp.expert_bias"), {count});
  if (check.has(name("mlp.shared_expert.gate_proj.weight"))) {
    arch.intermediate =
        std::max(arch.intermediate, check_mlp(check, arch, name("mlp.shared_expert.")));
    if (check.has(name("mlp.shared_expert_gate.weight")))
      check.shape(name("mlp.shared_expert_gate.weight"), {1, arch.hidden});
  }
  arch.layer_experts[static_cast<std::size_t>(layer)] = count;
}

void check_layer(const Checker& check, Arch& arch, std::int64_t layer,
                 std::int64_t first_attention) {
  const auto name = [&](std::string_view suffix) { return layer_tensor(layer, suffix); };
  refuse_foreign(check, arch, layer);
  check.shape(name("input_layernorm.weight"), {arch.hidden});
  check.shape(name("post_attention_layernorm.weight"), {arch.hidden});
  const std::array<std::string, 2> sandwich = {name("pre_feedforward_layernorm.weight"),
                                               name("post_feedforward_layernorm.weight")};
  arch.sandwich_norms = check_same(check, layer, 0, arch.sandwich_norms,
                                   check.all_or_none(sandwich), "norms around the MLP");
  if (arch.sandwich_norms) {
    for (const std::string& norm : sandwich) check.shape(norm, {arch.hidden});
  }
  if (is_linear(arch, layer)) {
    check_delta_net(check, arch, layer);
  } else {
    check_attention(check, arch, layer, first_attention);
  }
  if (check.has(name("mlp.gate.weight"))) {
    check_experts(check, arch, layer);
  } else {
    arch.intermediate = std::max(arch.intermediate, check_mlp(check, arch, name("mlp.")));
  }
}

}  // namespace

void check_tensors(const cmf::Source& source, Arch& arch) {
  const Checker check(source);
  check.shape("model.embed_tokens.weight", {arch.vocab, arch.hidden});
  std::int64_t first_attention = 0;
  while (first_attention < arch.layers && is_linear(arch, first_attention)) ++first_attention;
  for (std::int64_t layer = 0; layer < arch.layers; ++layer)
    check_layer(check, arch, layer, first_attention);
  check.shape("model.norm.weight", {arch.hidden});
  if (check.has("lm_head.weight")) {
    check.shape("lm_head.weight", {arch.vocab, arch.hidden});
  } else if (!arch.tied_head) {
    fail(ErrorKind::kInput,
         "{}: tensor lm_head.weight is missing and arch.tie_word_embeddings is not set; the model "
         "has no head",
         check.where());
  }
}

}  // namespace cortiq::model
