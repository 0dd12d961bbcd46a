#include "header_schema.hpp"

#include <algorithm>
#include <array>
#include <initializer_list>
#include <span>

#include "cortiq/support/error.hpp"

namespace cortiq::cmf {
namespace {

constexpr std::string_view kRemedy = "the file is damaged or not a model";

enum class Kind {
  kAny,
  kString,
  kUnsigned,
  kUnsigned32,
  kNumber,
  kBool,
  kObject,
  kArray,
  kUnsignedArray,
  kNumberArray,
  kBoolArray
};
enum class Need { kOptional, kRequired };

struct Key {
  std::string_view name;
  Kind kind;
  Need need = Need::kOptional;
};

constexpr std::array kTopKeys{
    Key{"format", Kind::kString},
    Key{"version", Kind::kUnsigned32, Need::kRequired},
    Key{"arch", Kind::kObject, Need::kRequired},
    Key{"quant_type", Kind::kString, Need::kRequired},
    Key{"provenance", Kind::kAny},
    Key{"tokenizer_config", Kind::kObject},
    Key{"section_hashes", Kind::kObject},
    Key{"skills", Kind::kArray},
    Key{"shard", Kind::kObject},
    Key{"calibration", Kind::kObject},
    Key{"routing", Kind::kObject},
    Key{"genome", Kind::kObject},
    Key{"lineage", Kind::kArray},
    Key{"router", Kind::kObject},
    Key{"segments", Kind::kArray},
};

constexpr std::array kArchKeys{
    Key{"arch_name", Kind::kString, Need::kRequired},
    Key{"hidden_size", Kind::kUnsigned, Need::kRequired},
    Key{"intermediate_size", Kind::kUnsigned, Need::kRequired},
    Key{"num_layers", Kind::kUnsigned, Need::kRequired},
    Key{"num_attention_heads", Kind::kUnsigned, Need::kRequired},
    Key{"num_kv_heads", Kind::kUnsigned, Need::kRequired},
    Key{"head_dim", Kind::kUnsigned, Need::kRequired},
    Key{"vocab_size", Kind::kUnsigned, Need::kRequired},
    Key{"layer_types", Kind::kArray, Need::kRequired},
    Key{"rms_norm_eps", Kind::kNumber, Need::kRequired},
    Key{"max_position_embeddings", Kind::kUnsigned, Need::kRequired},
    Key{"norm_style", Kind::kString},
    Key{"rope_theta", Kind::kNumber},
    Key{"tie_word_embeddings", Kind::kBool},
    Key{"partial_rotary_factor", Kind::kNumber},
    Key{"yarn", Kind::kObject},
    Key{"attention_heads_per_layer", Kind::kUnsignedArray},
    Key{"kv_heads_per_layer", Kind::kUnsignedArray},
    Key{"v_head_dim", Kind::kUnsigned},
    Key{"hidden_act", Kind::kString},
    Key{"embed_multiplier", Kind::kNumber},
    Key{"query_pre_attn_scalar", Kind::kNumber},
    Key{"sliding_window", Kind::kUnsigned},
    Key{"sliding_window_pattern", Kind::kUnsigned},
    Key{"rope_local_base_freq", Kind::kNumber},
    Key{"local_partial_rotary_factor", Kind::kNumber},
    Key{"global_head_dim", Kind::kUnsigned},
    Key{"num_global_kv_heads", Kind::kUnsigned},
    Key{"global_partial_rotary_factor", Kind::kNumber},
    Key{"final_logit_softcapping", Kind::kNumber},
    Key{"mla", Kind::kObject},
    Key{"no_rope_layers", Kind::kBoolArray},
    Key{"attention_sink", Kind::kBool},
    Key{"activation_situ_beta", Kind::kNumber},
    Key{"activation_situ_linear_beta", Kind::kNumber},
    Key{"attn_logit_softcapping", Kind::kNumber},
    Key{"attn_v_norm", Kind::kBool},
    Key{"qk_norm_after_rope", Kind::kBool},
    Key{"mtp", Kind::kObject},
    Key{"moe", Kind::kObject},
    Key{"qwen4_exp", Kind::kAny},
    Key{"block_diffusion", Kind::kAny},
    Key{"deepseek_v41", Kind::kAny},
    Key{"g3n", Kind::kAny},
    Key{"prism_hadamard", Kind::kAny},
    Key{"linear_core", Kind::kObject},
    Key{"anchor_core", Kind::kObject},
    Key{"head_clusters", Kind::kUnsigned},
    Key{"linear_conv_kernel_dim", Kind::kUnsigned},
    Key{"linear_num_key_heads", Kind::kUnsigned},
    Key{"linear_num_value_heads", Kind::kUnsigned},
    Key{"linear_key_head_dim", Kind::kUnsigned},
    Key{"linear_value_head_dim", Kind::kUnsigned},
    Key{"rope_freq_factors", Kind::kNumberArray},
    Key{"logit_multiplier", Kind::kNumber},
    Key{"kda_gate_lower_bound", Kind::kNumber},
    Key{"num_loops", Kind::kUnsigned},
    Key{"loop_final_norm", Kind::kBool},
};

constexpr std::array kMoeKeys{
    Key{"num_experts", Kind::kUnsigned, Need::kRequired},
    Key{"top_k", Kind::kUnsigned, Need::kRequired},
    Key{"moe_intermediate_size", Kind::kUnsigned, Need::kRequired},
    Key{"norm_topk_prob", Kind::kBool},
    Key{"shared_expert_intermediate_size", Kind::kUnsigned},
    Key{"router_sigmoid", Kind::kBool},
    Key{"routed_scaling_factor", Kind::kNumber},
    Key{"router_resonance", Kind::kBool},
};

constexpr std::array kYarnKeys{
    Key{"factor", Kind::kNumber, Need::kRequired},
    Key{"original_max_position_embeddings", Kind::kUnsigned, Need::kRequired},
    Key{"beta_fast", Kind::kNumber},
    Key{"beta_slow", Kind::kNumber},
    Key{"attention_factor", Kind::kNumber},
    Key{"mscale_all_dim", Kind::kNumber},
};

constexpr std::array kMtpKeys{
    Key{"num_layers", Kind::kUnsigned, Need::kRequired},
    Key{"ffn_intermediate_sizes", Kind::kUnsignedArray},
    Key{"share_lm_head", Kind::kBool},
    Key{"share_embed", Kind::kBool},
};

constexpr std::array kLinearCoreKeys{
    Key{"kind", Kind::kString, Need::kRequired},
    Key{"num_heads", Kind::kUnsigned, Need::kRequired},
    Key{"nphase", Kind::kUnsigned},
    Key{"value_head_dim", Kind::kUnsigned},
    Key{"phase_delta_layers", Kind::kAny},
};

constexpr std::array kTokenizerKeys{
    Key{"chat_template", Kind::kString},
    Key{"eos_token_ids", Kind::kUnsignedArray},
    Key{"bos_token_id", Kind::kUnsigned32},
    Key{"pad_token_id", Kind::kUnsigned32},
};

constexpr std::array kShardKeys{
    Key{"no", Kind::kUnsigned32, Need::kRequired},
    Key{"count", Kind::kUnsigned32, Need::kRequired},
};

constexpr std::array kSectionHashKeys{Key{"masks", Kind::kString}, Key{"vocab", Kind::kString},
                                      Key{"index", Kind::kString}};

struct ObjectRule {
  std::string_view path;
  std::span<const Key> keys;
};

const std::array<ObjectRule, 9> kObjects{{
    {"", kTopKeys},
    {"arch", kArchKeys},
    {"arch.moe", kMoeKeys},
    {"arch.yarn", kYarnKeys},
    {"arch.mtp", kMtpKeys},
    {"arch.linear_core", kLinearCoreKeys},
    {"tokenizer_config", kTokenizerKeys},
    {"shard", kShardKeys},
    {"section_hashes", kSectionHashKeys},
}};

constexpr std::array<std::string_view, 7> kQuantTypes{"Q8_ROW", "Q4_BLOCK", "Q8_2F", "VBIT",
                                                      "BF16",   "F16",      "F32"};
constexpr std::array<std::string_view, 6> kLayerTypes{
    "FullAttention", "SlidingAttention", "LinearAttention", "ShortConv", "Kda", "BoundedAttention"};
constexpr std::array<std::string_view, 2> kNormStyles{"qwen", "gemma"};

bool is_unsigned(const Json& value) {
  // Integers made from C++ literals are stored as signed numbers.
  return value.is_number_unsigned() ||
         (value.is_number_integer() && value.get<std::int64_t>() >= 0);
}

bool is_unsigned32(const Json& value) {
  return is_unsigned(value) && value.get<std::uint64_t>() <= 0xFFFFFFFFULL;
}

template <typename Test>
bool all_of_array(const Json& value, Test test) {
  return value.is_array() && std::all_of(value.begin(), value.end(), test);
}

bool matches(const Json& value, Kind kind) {
  switch (kind) {
    case Kind::kAny:
      return true;
    case Kind::kString:
      return value.is_string();
    case Kind::kUnsigned:
      return is_unsigned(value);
    case Kind::kUnsigned32:
      return is_unsigned32(value);
    case Kind::kNumber:
      return value.is_number();
    case Kind::kBool:
      return value.is_boolean();
    case Kind::kObject:
      return value.is_object();
    case Kind::kArray:
      return value.is_array();
    case Kind::kUnsignedArray:
      return all_of_array(value, is_unsigned);
    case Kind::kNumberArray:
      return all_of_array(value, [](const Json& v) { return v.is_number(); });
    case Kind::kBoolArray:
      return all_of_array(value, [](const Json& v) { return v.is_boolean(); });
  }
  return false;
}

std::string_view describe(Kind kind) {
  switch (kind) {
    case Kind::kAny:
      return "any value";
    case Kind::kString:
      return "a string";
    case Kind::kUnsigned:
      return "an unsigned integer";
    case Kind::kUnsigned32:
      return "an unsigned 32-bit integer";
    case Kind::kNumber:
      return "a number";
    case Kind::kBool:
      return "true or false";
    case Kind::kObject:
      return "an object";
    case Kind::kArray:
      return "an array";
    case Kind::kUnsignedArray:
      return "an array of unsigned integers";
    case Kind::kNumberArray:
      return "an array of numbers";
    case Kind::kBoolArray:
      return "an array of true and false";
  }
  return "";
}

/// The value as it stands in the file, cut for a message.
std::string excerpt(const Json& value) {
  std::string text = value.dump(-1, ' ', false, Json::error_handler_t::replace);
  if (text.size() > 40) text = text.substr(0, 37) + "...";
  return text;
}

const Json* find_path(const Json& header, std::string_view path) {
  const Json* at = &header;
  while (!path.empty()) {
    const std::size_t dot = path.find('.');
    const std::string key(path.substr(0, dot));
    path = dot == std::string_view::npos ? std::string_view() : path.substr(dot + 1);
    if (!at->is_object()) return nullptr;
    const auto found = at->find(key);
    if (found == at->end()) return nullptr;
    at = &*found;
  }
  return at;
}

void check_object(const Json& object, const ObjectRule& rule, std::string_view where) {
  const std::string prefix = rule.path.empty() ? std::string() : std::string(rule.path) + ".";
  for (const Key& key : rule.keys) {
    const auto found = object.find(std::string(key.name));
    if (found == object.end()) {
      if (key.need == Need::kOptional) continue;
      fail(ErrorKind::kInput, "{}: header: key {}{} is missing; the file is damaged or not a model",
           where, prefix, key.name);
    }
    if (found->is_null() && key.need == Need::kOptional) continue;
    if (!matches(*found, key.kind)) {
      fail(ErrorKind::kInput, "{}: header: key {}{} must be {}, is {}; {}", where, prefix,
           key.name, describe(key.kind), excerpt(*found), kRemedy);
    }
  }
}

void check_enum(const Json& value, std::string_view name, std::span<const std::string_view> allowed,
                std::string_view where) {
  if (value.is_string() && std::find(allowed.begin(), allowed.end(),
                                     value.get_ref<const std::string&>()) != allowed.end()) {
    return;
  }
  fail(ErrorKind::kInput, "{}: header: {} is {}, must be one of {}; {}", where, name, excerpt(value),
       fmt::join(allowed.begin(), allowed.end(), ", "), kRemedy);
}

bool has_value(const Json& object, const char* key) {
  const auto found = object.find(key);
  return found != object.end() && !found->is_null();
}

void check_arch_rules(const Json& arch, std::string_view where) {
  const Json& types = arch.at("layer_types");
  const auto layers = arch.at("num_layers").get<std::uint64_t>();
  if (types.size() != layers) {
    fail(ErrorKind::kInput,
         "{}: header: arch.layer_types has {} entries but arch.num_layers is {}; the header is "
         "damaged",
         where, types.size(), layers);
  }
  bool bounded = false;
  for (std::size_t i = 0; i < types.size(); ++i) {
    check_enum(types[i], fmt::format("arch.layer_types[{}]", i), kLayerTypes, where);
    bounded = bounded || types[i] == "BoundedAttention";
  }
  if (bounded != has_value(arch, "anchor_core")) {
    fail(ErrorKind::kInput,
         "{}: header: arch.anchor_core must be present exactly when a layer is BoundedAttention; "
         "it {}",
         where, bounded ? "is missing" : "is present without such a layer");
  }
  if (has_value(arch, "norm_style"))
    check_enum(arch.at("norm_style"), "arch.norm_style", kNormStyles, where);
  if (!has_value(arch, "linear_core")) return;
  const Json& core = arch.at("linear_core");
  if (core.at("kind") == "gated_delta_net" && has_value(core, "phase_delta_layers")) {
    fail(ErrorKind::kInput,
         "{}: header: arch.linear_core of kind gated_delta_net must not have "
         "phase_delta_layers; {}",
         where, kRemedy);
  }
}

}  // namespace

bool is_known_header_key(std::string_view path, std::string_view key) {
  for (const ObjectRule& rule : kObjects) {
    if (rule.path != path) continue;
    return std::any_of(rule.keys.begin(), rule.keys.end(),
                       [key](const Key& k) { return k.name == key; });
  }
  return false;
}

void check_header(const Json& header, std::string_view where) {
  if (!header.is_object()) {
    fail(ErrorKind::kInput, "{}: header: must be a JSON object, is {}; {}", where,
         excerpt(header), kRemedy);
  }
  for (const ObjectRule& rule : kObjects) {
    const Json* object = find_path(header, rule.path);
    if (object != nullptr && !object->is_null()) check_object(*object, rule, where);
  }
  check_enum(header.at("quant_type"), "quant_type", kQuantTypes, where);
  check_arch_rules(header.at("arch"), where);
}

}  // namespace cortiq::cmf
