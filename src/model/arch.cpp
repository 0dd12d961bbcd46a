#include "cortiq/model/arch.hpp"

#include <algorithm>
#include <array>
#include <cmath>
#include <limits>

#include "arch_fields.hpp"
#include "arch_tensors.hpp"

namespace cortiq::model {
namespace {

using cmf::Json;

constexpr std::array<std::string_view, 16> kFamilies = {
    "llama",   "mistral",      "phi3",        "qwen2",           "qwen3",     "gemma2",
    "gemma3",  "gemma3_text",  "mixtral",     "qwen2_moe",       "qwen3_moe", "qwen3_next",
    "qwen3_5", "qwen3_5_text", "qwen3_5_moe", "qwen3_5_moe_text"};
/// Records of the header that change the forward pass and that no listed family has.
constexpr std::array<std::string_view, 15> kForeignRecords = {"mla",
                                                              "anchor_core",
                                                              "qwen4_exp",
                                                              "deepseek_v41",
                                                              "g3n",
                                                              "prism_hadamard",
                                                              "block_diffusion",
                                                              "head_clusters",
                                                              "no_rope_layers",
                                                              "global_head_dim",
                                                              "num_global_kv_heads",
                                                              "attention_heads_per_layer",
                                                              "kv_heads_per_layer",
                                                              "local_partial_rotary_factor",
                                                              "activation_situ_beta"};

void check_family(const Fields& fields) {
  const std::string name = fields.text("arch_name");
  if (std::find(kFamilies.begin(), kFamilies.end(), name) == kFamilies.end()) {
    std::string list;
    for (const std::string_view family : kFamilies)
      list += (list.empty() ? "" : ", ") + std::string(family);
    fail(ErrorKind::kUnsupported, "{}: architecture '{}' has no forward pass here; supported: {}",
         fields.where(), name, list);
  }
  for (const std::string_view key : kForeignRecords) {
    if (fields.has(key)) {
      fail(ErrorKind::kUnsupported,
           "{}: architecture '{}' with the record arch.{} has no forward pass here", fields.where(),
           name, key);
    }
  }
  if (fields.integer_or("num_loops", 1, 1, 1 << 20) != 1) {
    fail(ErrorKind::kUnsupported,
         "{}: looped stacks (arch.num_loops > 1) have no forward pass here", fields.where());
  }
  if (fields.flag_or("attn_v_norm", false)) {
    fail(ErrorKind::kUnsupported, "{}: normed values (arch.attn_v_norm) have no forward pass here",
         fields.where());
  }
}

Activation parse_activation(const Fields& fields) {
  const std::string name = fields.text_or("hidden_act", "silu");
  if (name == "silu") return Activation::kSilu;
  if (name == "gelu_tanh") return Activation::kGeluTanh;
  if (name == "gelu") return Activation::kGelu;
  fail(ErrorKind::kUnsupported,
       "{}: activation '{}' (arch.hidden_act) is not handled; expected silu, gelu_tanh or gelu",
       fields.where(), name);
}

NormStyle parse_norm_style(const Fields& fields) {
  const std::string name = fields.text_or("norm_style", "qwen");
  if (name == "qwen") return NormStyle::kQwen;
  if (name == "gemma") return NormStyle::kGemma;
  fail(ErrorKind::kInput, "{}: arch.norm_style is '{}'; expected qwen or gemma", fields.where(),
       name);
}

LayerType parse_layer_type(const Fields& fields, const Json& entry, std::size_t index) {
  const std::string name = entry.is_string() ? entry.get<std::string>() : entry.dump();
  if (name == "FullAttention") return LayerType::kFull;
  if (name == "SlidingAttention") return LayerType::kSliding;
  if (name == "LinearAttention") return LayerType::kLinear;
  fail(ErrorKind::kUnsupported,
       "{}: layer {} is of type '{}' (arch.layer_types), which has no forward pass here",
       fields.where(), index, name);
}

/// Locality rule of cmf.md 5.2: tags win over the pattern, which needs a window.
void read_layer_types(const Fields& fields, Arch& arch) {
  const Json& list = fields.array("layer_types");
  if (static_cast<std::int64_t>(list.size()) != arch.layers) {
    fail(ErrorKind::kInput, "{}: arch.layer_types has {} entries for {} layers", fields.where(),
         list.size(), arch.layers);
  }
  for (std::size_t i = 0; i < list.size(); ++i)
    arch.layer_types.push_back(parse_layer_type(fields, list[i], i));
  arch.sliding_window = fields.integer_or("sliding_window", 0, 0, std::int64_t{1} << 40);
  const auto tagged =
      std::count(arch.layer_types.begin(), arch.layer_types.end(), LayerType::kSliding);
  const std::int64_t pattern =
      fields.integer_or("sliding_window_pattern", 0, 0, std::int64_t{1} << 31);
  if (tagged > 0 && arch.sliding_window == 0) {
    fail(ErrorKind::kInput,
         "{}: {} layers are tagged SlidingAttention, but arch.sliding_window is missing",
         fields.where(), tagged);
  }
  if (tagged == 0 && pattern > 0 && arch.sliding_window > 0) {
    for (std::int64_t i = 0; i < arch.layers; ++i) {
      LayerType& type = arch.layer_types[static_cast<std::size_t>(i)];
      if ((i + 1) % pattern != 0 && type == LayerType::kFull) type = LayerType::kSliding;
    }
  }
}

std::optional<Yarn> read_yarn(const Fields& fields) {
  if (!fields.has("yarn")) return std::nullopt;
  const Fields record = fields.object("yarn");
  Yarn yarn;
  yarn.factor = record.number("factor");
  yarn.original_positions = record.number("original_max_position_embeddings");
  yarn.beta_fast = record.number_or("beta_fast", 32);
  yarn.beta_slow = record.number_or("beta_slow", 1);
  yarn.attention_factor = record.number_or("attention_factor", 1);
  if (!(yarn.factor > 0) || !(yarn.original_positions > 0) || !(yarn.beta_fast > 0) ||
      !(yarn.beta_slow > 0)) {
    fail(ErrorKind::kInput,
         "{}: arch.yarn needs positive factor, original_max_position_embeddings and betas",
         fields.where());
  }
  return yarn;
}

void read_rope(const Fields& fields, Arch& arch) {
  arch.rope_theta = fields.positive_or("rope_theta", 10000);
  arch.has_local_rope = fields.has("rope_local_base_freq");
  arch.rope_local_theta = fields.positive_or("rope_local_base_freq", arch.rope_theta);
  const double factor = fields.positive_or("partial_rotary_factor", 1.0);
  const double dims = std::trunc(static_cast<double>(arch.head_dim) *
                                 static_cast<double>(static_cast<float>(factor)));
  if (factor > 1.0)
    fail(ErrorKind::kInput, "{}: arch.partial_rotary_factor {} exceeds 1", fields.where(), factor);
  arch.rotary_dim = std::max<std::int64_t>(2, static_cast<std::int64_t>(dims));
  if (arch.rotary_dim % 2 != 0 || arch.rotary_dim > arch.head_dim) {
    fail(ErrorKind::kInput,
         "{}: {} rotary dimensions of a head of {}; an even number up to the head size is needed",
         fields.where(), arch.rotary_dim, arch.head_dim);
  }
  arch.yarn = read_yarn(fields);
  if (!fields.has("rope_freq_factors")) return;
  arch.rope_factors = fields.numbers("rope_freq_factors");
  const bool positive = std::all_of(arch.rope_factors.begin(), arch.rope_factors.end(),
                                    [](double f) { return f > 0 && std::isfinite(f); });
  if (static_cast<std::int64_t>(arch.rope_factors.size()) != arch.rotary_dim / 2 || !positive) {
    fail(ErrorKind::kInput, "{}: arch.rope_freq_factors has {} values; expected {} positive ones",
         fields.where(), arch.rope_factors.size(), arch.rotary_dim / 2);
  }
}

void read_attention(const Fields& fields, Arch& arch) {
  constexpr std::int64_t kMaxHeads = 1 << 16;
  arch.heads = fields.integer("num_attention_heads", 1, kMaxHeads);
  arch.kv_heads = fields.integer("num_kv_heads", 1, kMaxHeads);
  arch.head_dim = fields.integer("head_dim", 2, kMaxHeads);
  arch.v_head_dim = fields.integer_or("v_head_dim", arch.head_dim, 1, kMaxHeads);
  if (arch.heads % arch.kv_heads != 0) {
    fail(ErrorKind::kInput, "{}: {} attention heads cannot share {} key/value heads evenly",
         fields.where(), arch.heads, arch.kv_heads);
  }
  const double scalar =
      fields.positive_or("query_pre_attn_scalar", static_cast<double>(arch.head_dim));
  arch.attention_scale = 1.0 / std::sqrt(scalar);
  arch.attention_softcap = fields.optional_positive("attn_logit_softcapping");
  arch.final_softcap = fields.optional_positive("final_logit_softcapping");
  arch.qk_norm_after_rope = fields.flag_or("qk_norm_after_rope", false);
}

/// The width of the experts comes from their tensors.
void read_experts(const Fields& fields, Arch& arch) {
  arch.layer_experts.assign(static_cast<std::size_t>(arch.layers), 0);
  if (!fields.has("moe")) return;
  const Fields record = fields.object("moe");
  if (record.flag_or("router_resonance", false)) {
    fail(ErrorKind::kUnsupported,
         "{}: resonance routing (arch.moe.router_resonance) has no forward pass here",
         fields.where());
  }
  Experts experts;
  experts.top_k = record.integer("top_k", 1, 1 << 16);
  experts.renormalise = record.flag_or("norm_topk_prob", false);
  experts.sigmoid = record.flag_or("router_sigmoid", false);
  experts.scale = record.number_or("routed_scaling_factor", 1.0);
  arch.experts = experts;
}

void read_delta_net(const Fields& fields, Arch& arch) {
  const bool used = std::find(arch.layer_types.begin(), arch.layer_types.end(),
                              LayerType::kLinear) != arch.layer_types.end();
  if (!used) return;
  const Fields core = fields.object("linear_core");
  const std::string kind = core.text("kind");
  if (kind != "gated_delta_net" || core.has("phase_delta_layers")) {
    fail(ErrorKind::kUnsupported,
         "{}: linear attention of kind '{}' (arch.linear_core) has no forward pass here; expected "
         "gated_delta_net without phase layers",
         fields.where(), kind);
  }
  constexpr std::int64_t kMost = 1 << 16;
  DeltaNet net;
  net.value_heads = core.integer("num_heads", 1, kMost);
  net.value_dim = core.integer("value_head_dim", 1, kMost);
  net.key_heads = fields.integer("linear_num_key_heads", 1, kMost);
  net.key_dim = fields.integer("linear_key_head_dim", 1, kMost);
  net.taps = fields.integer("linear_conv_kernel_dim", 1, 64);
  if (net.value_heads % net.key_heads != 0) {
    fail(ErrorKind::kInput, "{}: {} linear value heads cannot share {} key heads evenly",
         fields.where(), net.value_heads, net.key_heads);
  }
  arch.delta_net = net;
}

std::optional<std::uint32_t> token_id(const Json& value) {
  if (!value.is_number_integer()) return std::nullopt;
  const bool fits = value >= 0 && value <= std::numeric_limits<std::uint32_t>::max();
  return fits ? std::optional(value.get<std::uint32_t>()) : std::nullopt;
}

void read_tokens(const cmf::Source& source, Arch& arch) {
  const Json& json = source.header().json();
  const auto config = json.find("tokenizer_config");
  if (config == json.end() || !config->is_object()) return;
  const auto bos = config->find("bos_token_id");
  if (bos != config->end()) arch.bos_token = token_id(*bos);
  const auto eos = config->find("eos_token_ids");
  if (eos == config->end() || !eos->is_array()) return;
  for (const Json& value : *eos) {
    if (const auto id = token_id(value)) arch.eos_tokens.push_back(*id);
  }
}

}  // namespace

std::int64_t query_width(const Arch& arch) noexcept {
  return arch.heads * arch.head_dim * (arch.output_gate ? 2 : 1);
}

bool is_linear(const Arch& arch, std::int64_t layer) noexcept {
  return arch.layer_types[static_cast<std::size_t>(layer)] == LayerType::kLinear;
}

std::int64_t mixer_width(const Arch& arch, std::int64_t layer) noexcept {
  return is_linear(arch, layer) ? arch.delta_net->value_width() : arch.heads * arch.v_head_dim;
}

bool has_experts(const Arch& arch, std::int64_t layer) noexcept {
  return arch.layer_experts[static_cast<std::size_t>(layer)] > 0;
}

std::string layer_tensor(std::int64_t layer, std::string_view suffix) {
  return fmt::format("model.layers.{}.{}", layer, suffix);
}

namespace {

const char* remedy(ErrorKind kind) {
  switch (kind) {
    case ErrorKind::kUnsupported:
      return "; without a forward pass, `cortiq-quant quantize` can round such a model";
    case ErrorKind::kInput:
      return "; the model is damaged or was converted wrongly, convert it again";
    default:
      return "";
  }
}

Arch parse_arch(const cmf::Source& source) {
  const Fields fields(source.header().arch(), fmt::format("{}: header", source.path().string()));
  check_family(fields);
  constexpr std::int64_t kMaxWidth = std::int64_t{1} << 24;
  Arch arch;
  arch.name = fields.text("arch_name");
  arch.hidden = fields.integer("hidden_size", 1, kMaxWidth);
  arch.layers = fields.integer("num_layers", 1, 1 << 16);
  arch.vocab = fields.integer("vocab_size", 1, std::int64_t{1} << 31);
  arch.max_positions = fields.integer("max_position_embeddings", 1, std::int64_t{1} << 40);
  arch.norm_eps = fields.number("rms_norm_eps");
  arch.norm_style = parse_norm_style(fields);
  arch.activation = parse_activation(fields);
  arch.embed_multiplier = static_cast<float>(fields.number_or("embed_multiplier", 1.0));
  if (fields.has("logit_multiplier"))
    arch.logit_multiplier = static_cast<float>(fields.number("logit_multiplier"));
  arch.tied_head = fields.flag_or("tie_word_embeddings", false);
  read_attention(fields, arch);
  read_rope(fields, arch);
  read_layer_types(fields, arch);
  read_experts(fields, arch);
  read_delta_net(fields, arch);
  read_tokens(source, arch);
  check_tensors(source, arch);
  return arch;
}

}  // namespace

Arch read_arch(const cmf::Source& source) {
  try {
    return parse_arch(source);
  } catch (const Error& error) {
    throw Error(error.kind(), std::string(error.what()) + remedy(error.kind()));
  }
}

}  // namespace cortiq::model
