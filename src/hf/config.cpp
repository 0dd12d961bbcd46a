#include "cortiq/hf/config.hpp"

#include <algorithm>
#include <cmath>

#include "fields.hpp"
#include "rope.hpp"

namespace cortiq::hf {
namespace {

using cmf::Json;

// Above any model; they keep a damaged file from asking for much memory.
constexpr std::int64_t kMaxLayers = 65536;
constexpr std::int64_t kMaxHeadDim = 65536;

/// What the families share is decided by a few questions about the names.
struct Family {
  std::string type;       ///< lower-case model_type of the whole model
  std::string text_type;  ///< of the text part
  [[nodiscard]] bool gemma() const { return type.starts_with("gemma"); }
  [[nodiscard]] bool gemma3() const { return type.starts_with("gemma3"); }
  [[nodiscard]] bool qwen_hybrid() const {
    return type.starts_with("qwen3_5") || text_type.starts_with("qwen3_5") || type == "qwen3_next";
  }
  [[nodiscard]] bool mixtral() const { return type == "mixtral"; }
  [[nodiscard]] bool always_windowed() const {
    return type == "mistral" || type == "mixtral" || type == "phi3";
  }
};

std::string lower(std::string text) {
  std::transform(text.begin(), text.end(), text.begin(), [](char c) {
    return c >= 'A' && c <= 'Z' ? static_cast<char>(c - 'A' + 'a') : c;
  });
  return text;
}

Family read_family(const Fields& config, const Fields& text) {
  const auto type = config.text({"model_type"});
  if (!type) config.wrong("model_type", "the name of an architecture");
  const Family family{lower(*type), lower(text.text({"model_type"}).value_or(*type))};
  const auto& known = supported_model_types();
  if (std::find(known.begin(), known.end(), family.type) == known.end()) {
    fail(ErrorKind::kUnsupported, "{}: model_type \"{}\" is not handled; supported are {}",
         config.where(), *type, fmt::join(known, ", "));
  }
  return family;
}

std::int64_t read_head_dim(const Fields& text, const Family& family, std::int64_t hidden,
                           std::int64_t heads) {
  if (const auto given = text.integer({"head_dim"})) {
    if (*given == 0) text.wrong("head_dim", "a positive integer");
    return *given;
  }
  // Gemma configurations leave out what equals the default of their class.
  if (family.gemma() && text.find("head_dim") == nullptr) return 256;
  if (hidden % heads != 0) {
    fail(ErrorKind::kInput,
         "{}: hidden_size {} is no multiple of num_attention_heads {} and there is no head_dim; check config.json",
         text.where(), hidden, heads);
  }
  return hidden / heads;
}

std::int64_t read_intermediate(const Fields& text) {
  const Json* value = text.find("intermediate_size");
  if (value != nullptr && value->is_array()) {
    const bool uniform =
        !value->empty() && std::all_of(value->begin(), value->end(),
                                       [&](const Json& item) { return item == value->front(); });
    if (!uniform) text.wrong("intermediate_size", "one width for all layers");
    const Json single{{"intermediate_size", value->front()}};
    return Fields(single, text.where()).required("intermediate_size");
  }
  const auto width = text.integer({"intermediate_size", "moe_intermediate_size"});
  if (!width || *width == 0) text.wrong("intermediate_size", "a positive integer");
  return *width;
}

/// Linear attention in all but every n-th layer, where the configuration does not list the layers.
Json default_layer_types(const Fields& text, const Family& family, std::int64_t layers) {
  Json types = Json::array();
  const std::int64_t interval = text.integer({"full_attention_interval"}).value_or(4);
  const bool windowed = text.boolean({"use_sliding_window"}).value_or(false);
  const std::int64_t first_windowed = text.integer({"max_window_layers"}).value_or(layers);
  // These families have no list of layers: a window number holds for all of them.
  const bool all_windowed =
      family.always_windowed() && text.integer({"sliding_window"}).value_or(0) > 0;
  for (std::int64_t i = 0; i < layers; ++i) {
    if (family.qwen_hybrid()) {
      types.push_back(interval != 0 && (i + 1) % interval == 0 ? "FullAttention"
                                                               : "LinearAttention");
    } else {
      const bool sliding = all_windowed || (windowed && i >= first_windowed);
      types.push_back(sliding ? "SlidingAttention" : "FullAttention");
    }
  }
  return types;
}

Json read_layer_types(const Fields& text, const Family& family, std::int64_t layers) {
  const Json* list = text.find("layer_types");
  if (list == nullptr) return default_layer_types(text, family, layers);
  if (!list->is_array() || static_cast<std::int64_t>(list->size()) != layers) {
    text.wrong("layer_types", fmt::format("a list of {} names, one per layer", layers));
  }
  Json types = Json::array();
  for (const Json& item : *list) {
    const std::string name =
        item.is_string() ? item.get<std::string>() : std::string("(no string)");
    if (name == "full_attention" || name == "attention") {
      types.push_back("FullAttention");
    } else if (name == "sliding_attention") {
      types.push_back("SlidingAttention");
    } else if (name == "linear_attention") {
      types.push_back("LinearAttention");
    } else {
      fail(ErrorKind::kUnsupported,
           "{}: layer type \"{}\" is not handled; supported are full_attention, "
           "sliding_attention and linear_attention",
           text.where(), name);
    }
  }
  return types;
}

bool has_layer(const Json& types, std::string_view name) {
  return std::any_of(types.begin(), types.end(), [&](const Json& item) { return item == name; });
}

/// sliding_window and sliding_window_pattern. A window that no layer uses is left out.
void put_window(Json& arch, const Fields& text, const Family& family) {
  auto window = text.integer({"sliding_window"});
  if (!window && family.gemma()) window = 4096;
  if (has_layer(arch["layer_types"], "SlidingAttention")) {
    if (!window || *window == 0)
      text.wrong("sliding_window", "a positive integer, as layer_types has sliding layers");
    arch["sliding_window"] = *window;
    return;
  }
  if (!family.gemma() || text.find("layer_types") != nullptr) return;
  const std::int64_t family_pattern = family.gemma3() ? 6 : 2;
  arch["sliding_window"] = *window;
  arch["sliding_window_pattern"] =
      text.integer({"sliding_window_pattern", "_sliding_window_pattern"}).value_or(family_pattern);
}

std::string read_activation(const Fields& text, const Family& family) {
  const auto name = text.text({"hidden_activation", "hidden_act"});
  if (!name) return family.gemma() ? "gelu_tanh" : "silu";
  if (*name == "gelu_pytorch_tanh" || *name == "gelu_tanh" || *name == "gelu_new")
    return "gelu_tanh";
  if (*name == "gelu") return "gelu";
  if (*name == "silu" || *name == "swish") return "silu";
  fail(ErrorKind::kUnsupported,
       "{}: activation \"{}\" is not handled; supported are silu, gelu and gelu_pytorch_tanh",
       text.where(), *name);
}

bool sigmoid_router(const Fields& text) {
  const auto function =
      text.text({"scoring_func", "router_score_function", "moe_router_activation_func"});
  return function == "sigmoid" || text.boolean({"moe_router_use_sigmoid"}).value_or(false);
}

void put_experts(Json& arch, const Fields& text, const Family& family) {
  // Folders written by transformers 5 say num_local_experts for every family.
  const auto experts =
      text.integer({"num_experts", "n_routed_experts", "num_local_experts"});
  if (!experts || *experts == 0) return;
  Json moe = Json::object();
  moe["num_experts"] = *experts;
  moe["top_k"] =
      text.integer({"num_experts_per_tok", "top_k_experts", "num_experts_per_token"}).value_or(2);
  std::int64_t width = text.integer({"moe_intermediate_size"}).value_or(0);
  if (width == 0 && family.mixtral()) width = arch["intermediate_size"].get<std::int64_t>();
  moe["moe_intermediate_size"] = width;
  moe["norm_topk_prob"] = text.boolean({"norm_topk_prob", "moe_renormalize", "route_norm"})
                              .value_or(family.qwen_hybrid() || family.mixtral());
  auto shared = text.integer({"shared_expert_intermediate_size"});
  const auto shared_count = text.integer({"n_shared_experts", "num_shared_experts"});
  if (!shared && shared_count && *shared_count > 0) shared = *shared_count * width;
  if (shared && *shared > 0) moe["shared_expert_intermediate_size"] = *shared;
  moe["router_sigmoid"] = sigmoid_router(text);
  const double scale =
      text.number({"routed_scaling_factor", "moe_routed_scaling_factor", "router_scaling_factor"})
          .value_or(1.0);
  if (scale != 1.0) moe["routed_scaling_factor"] = scale;
  arch["moe"] = std::move(moe);
}

void put_linear_attention(Json& arch, const Fields& text) {
  const auto copy_or_null = [&](std::string_view key) {
    const auto value = text.integer({key});
    arch[std::string(key)] = value ? Json(*value) : Json(nullptr);
  };
  const bool linear = has_layer(arch["layer_types"], "LinearAttention");
  if (linear) {
    Json core = Json::object();
    core["kind"] = "gated_delta_net";
    core["num_heads"] = text.required("linear_num_value_heads");
    core["value_head_dim"] = text.required("linear_value_head_dim");
    for (const std::string_view key :
         {"linear_conv_kernel_dim", "linear_num_key_heads", "linear_key_head_dim"}) {
      static_cast<void>(text.required(key));
    }
    arch["linear_core"] = std::move(core);
  }
  for (const std::string_view key :
       {"linear_conv_kernel_dim", "linear_num_key_heads", "linear_num_value_heads"}) {
    copy_or_null(key);
  }
  if (linear) {
    copy_or_null("linear_key_head_dim");
    copy_or_null("linear_value_head_dim");
  }
}

/// Counts, widths and layer kinds.
void put_shape(Json& arch, const Fields& text, const Family& family) {
  const std::int64_t hidden = text.required("hidden_size");
  const std::int64_t layers = text.required("num_hidden_layers");
  const std::int64_t heads = text.required("num_attention_heads");
  const std::int64_t kv_heads = text.integer({"num_key_value_heads"}).value_or(heads);
  if (layers > kMaxLayers) text.wrong("num_hidden_layers", fmt::format("at most {}", kMaxLayers));
  if (kv_heads == 0 || heads % kv_heads != 0) {
    fail(ErrorKind::kInput, "{}: num_attention_heads {} is no multiple of num_key_value_heads {}; check config.json",
         text.where(), heads, kv_heads);
  }
  arch["hidden_size"] = hidden;
  arch["intermediate_size"] = read_intermediate(text);
  arch["num_layers"] = layers;
  arch["num_attention_heads"] = heads;
  arch["num_kv_heads"] = kv_heads;
  const std::int64_t head_dim = read_head_dim(text, family, hidden, heads);
  if (head_dim > kMaxHeadDim) text.wrong("head_dim", fmt::format("at most {}", kMaxHeadDim));
  arch["head_dim"] = head_dim;
  arch["vocab_size"] = text.required("vocab_size");
  arch["layer_types"] = read_layer_types(text, family, layers);
}

bool read_tied(const Fields& config, const Fields& text, const Family& family) {
  if (const auto tied = config.boolean({"tie_word_embeddings"})) return *tied;
  return text.boolean({"tie_word_embeddings"}).value_or(family.gemma());
}

void put_attention_and_scales(Json& arch, const Fields& text, const Family& family,
                              const Rope& rope) {
  const std::string activation = read_activation(text, family);
  if (activation != "silu") arch["hidden_act"] = activation;
  if (family.gemma())
    arch["embed_multiplier"] =
        std::sqrt(static_cast<float>(arch["hidden_size"].get<std::int64_t>()));
  auto scalar = text.number({"query_pre_attn_scalar"});
  if (!scalar && family.gemma()) scalar = 256.0;
  if (scalar && *scalar <= 0) text.wrong("query_pre_attn_scalar", "a positive number");
  if (scalar) arch["query_pre_attn_scalar"] = *scalar;
  put_window(arch, text, family);
  if (rope.local_theta) arch["rope_local_base_freq"] = *rope.local_theta;
  if (rope.local_rotary_share) arch["local_partial_rotary_factor"] = *rope.local_rotary_share;
  if (const auto cap = text.number({"final_logit_softcapping"}))
    arch["final_logit_softcapping"] = *cap;
  arch["attention_sink"] = false;
  if (const auto cap = text.number({"attn_logit_softcapping"}))
    arch["attn_logit_softcapping"] = *cap;
  const auto extra = text.integer({"mtp_num_hidden_layers", "num_nextn_predict_layers"});
  if (extra && *extra > 0) {
    arch["mtp"] = Json{{"num_layers", *extra}, {"share_lm_head", true}, {"share_embed", true}};
  }
}

}  // namespace

const std::vector<std::string_view>& supported_model_types() {
  static const std::vector<std::string_view> kTypes = {
      "gemma2",           "gemma3",       "gemma3_text", "llama",
      "mistral",          "mixtral",      "phi3",        "qwen2",
      "qwen2_moe",        "qwen3",        "qwen3_5",     "qwen3_5_moe",
      "qwen3_5_moe_text", "qwen3_5_text", "qwen3_moe",   "qwen3_next"};
  return kTypes;
}

Json arch_from_config(const Json& config_json, std::string_view where,
                      std::vector<std::string>* warnings) {
  const Fields config(config_json, std::string(where));
  const Json* text_json = config.object("text_config");
  const Fields text(text_json != nullptr ? *text_json : config_json,
                    std::string(where) + (text_json != nullptr ? ": text_config" : ""));
  const Family family = read_family(config, text);
  Json arch = Json::object();
  arch["arch_name"] = *config.text({"model_type"});
  put_shape(arch, text, family);
  arch["rms_norm_eps"] = text.number({"rms_norm_eps", "norm_eps"}).value_or(1e-6);
  arch["norm_style"] = family.gemma() || family.qwen_hybrid() ? "gemma" : "qwen";
  const double default_theta = family.gemma3() ? 1e6 : 10000.0;
  const auto local_theta = family.gemma3() ? std::optional<double>(10000.0) : std::nullopt;
  const Rope rope =
      read_rope(text, arch["head_dim"].get<std::int64_t>(), default_theta, local_theta);
  if (warnings != nullptr)
    warnings->insert(warnings->end(), rope.warnings.begin(), rope.warnings.end());
  arch["rope_theta"] = rope.theta;
  arch["tie_word_embeddings"] = read_tied(config, text, family);
  arch["partial_rotary_factor"] = rope.rotary_share;
  if (rope.yarn) arch["yarn"] = *rope.yarn;
  put_attention_and_scales(arch, text, family, rope);
  put_experts(arch, text, family);
  const std::int64_t positions = text.integer({"max_position_embeddings"}).value_or(32768);
  if (positions == 0) text.wrong("max_position_embeddings", "a positive integer");
  arch["max_position_embeddings"] = positions;
  put_linear_attention(arch, text);
  if (!rope.factors.empty()) arch["rope_freq_factors"] = rope.factors;
  const std::int64_t loops = text.integer({"num_loops"}).value_or(1);
  if (loops > 1) arch["num_loops"] = loops;
  return arch;
}

}  // namespace cortiq::hf
