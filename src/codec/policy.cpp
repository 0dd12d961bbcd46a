#include "cortiq/codec/policy.hpp"

#include <algorithm>
#include <array>
#include <span>

namespace cortiq::codec {

namespace {

using Names = std::span<const std::string_view>;

constexpr std::array<std::string_view, 11> kF32Suffixes = {".tid2eid",
                                                           ".self_attn.sinks",
                                                           "._codebook.embed",
                                                           ".mlp.expert_bias",
                                                           ".mlp.expert_bias_vl",
                                                           ".ffn.gate.bias",
                                                           ".ffn.gate.bias_vl",
                                                           ".linear_attn.conv_right_weight",
                                                           ".linear_attn.bd_softmax_logit_scale",
                                                           ".linear_attn.bd_softmax_history_bias",
                                                           ".linear_attn.bd_softmax_history_c"};

constexpr std::array<std::string_view, 22> kF16Suffixes = {"model.encoder.embed_positions.weight",
                                                           "model.decoder.embed_positions.weight",
                                                           "linear_attn.in_proj_a.weight",
                                                           "linear_attn.in_proj_b.weight",
                                                           "kda_attn.f_a_proj.weight",
                                                           "kda_attn.f_b_proj.weight",
                                                           "kda_attn.b_proj.weight",
                                                           "kda_attn.g_a_proj.weight",
                                                           "kda_attn.g_b_proj.weight",
                                                           "_conv1d.weight",
                                                           "altup.correction_coefs.weight",
                                                           "altup.prediction_coefs.weight",
                                                           "altup.modality_router.weight",
                                                           "laurel.linear_left.weight",
                                                           "laurel.linear_right.weight",
                                                           "per_layer_input_gate.weight",
                                                           ".per_layer_projection.weight",
                                                           "mlp.gate.weight",
                                                           "shared_expert_gate.weight",
                                                           "self_attn.g_proj.weight",
                                                           ".engram.q_weight",
                                                           ".engram.k_weight"};

constexpr std::array<std::string_view, 3> kExpertParts = {".experts.", ".shared_expert.",
                                                          ".shared_experts."};
constexpr std::array<std::string_view, 4> kGateUpSuffixes = {".gate_proj.weight", ".up_proj.weight",
                                                             ".w1.weight", ".w3.weight"};
constexpr std::array<std::string_view, 4> kDenseGateUpSuffixes = {
    ".mlp.gate_proj.weight", ".mlp.up_proj.weight", ".mlp.w1.weight", ".mlp.w3.weight"};
constexpr std::array<std::string_view, 3> kNotDenseParts = {".experts.", ".shared_expert", ".mtp."};
constexpr std::array<std::string_view, 6> kFp4Suffixes = {"gate_proj.weight", "up_proj.weight",
                                                          "down_proj.weight", "w1.weight",
                                                          "w2.weight",        "w3.weight"};

bool contains(std::string_view name, std::string_view part) noexcept {
  return name.find(part) != std::string_view::npos;
}
bool contains_any(std::string_view name, Names parts) noexcept {
  return std::ranges::any_of(parts, [name](std::string_view part) { return contains(name, part); });
}
bool ends_with_any(std::string_view name, Names suffixes) noexcept {
  return std::ranges::any_of(suffixes,
                             [name](std::string_view suffix) { return name.ends_with(suffix); });
}

std::string ascii_lower(std::string_view text) {
  std::string result(text);
  for (char& c : result) c = c >= 'A' && c <= 'Z' ? static_cast<char>(c - 'A' + 'a') : c;
  return result;
}

bool is_expert(std::string_view name) noexcept { return contains_any(name, kExpertParts); }

bool is_dense_gate_or_up(std::string_view name) noexcept {
  return !contains_any(name, kNotDenseParts) && ends_with_any(name, kDenseGateUpSuffixes);
}

/// Encoder-decoder attention, which such models need at higher precision.
bool is_whisper_q8(std::string_view name) noexcept {
  if (name == "model.decoder.embed_tokens.weight") return true;
  const bool inside = name.starts_with("model.encoder.") || name.starts_with("model.decoder.");
  return inside && (contains(name, ".self_attn.") || contains(name, ".encoder_attn."));
}

bool is_qwen4_q8(std::string_view name) noexcept {
  if (contains(name, ".linear_attn.") || contains(name, ".self_attn.") || is_vocabulary_edge(name))
    return true;
  if (contains(name, ".ple."))
    return name.ends_with("key_proj.weight") || name.ends_with("value_proj.weight");
  return name.starts_with("model.mtp.") &&
         (name.ends_with("fc_embedding.weight") || name.ends_with("fc_hidden.weight"));
}

/// True if the architecture stores this tensor as q8_2f where the profile says q4tp or q2tp; first
/// matching row of the table in codecs.md 10.4.
bool arch_wants_q8_2f(std::string_view name, const ModelTraits& model) {
  const std::string arch = ascii_lower(model.arch_name);
  const bool routed = contains(name, ".mlp.experts.");
  const bool routed_or_shared = routed || contains(name, ".mlp.shared_expert.");
  if (arch == "whisper") return is_whisper_q8(name);
  if (arch == "granite") return is_vocabulary_edge(name);
  if (model.arch_name == "mimo_v2" || arch == "mellum") return !routed;
  if (model.arch_name == "minimax_m3_vl") return !routed_or_shared;
  const bool minicpm = arch == "minicpmv4_7";
  if (model.gated_delta_net && model.has_moe && (arch.starts_with("qwen3_5") || minicpm))
    return !routed_or_shared;
  if (model.gated_delta_net && !model.has_moe && minicpm) return is_vocabulary_edge(name);
  return model.qwen4_exp && is_qwen4_q8(name);
}

std::string_view trim(std::string_view text) noexcept {
  constexpr std::string_view kSpace = " \t\r\n\v\f";
  const std::size_t first = text.find_first_not_of(kSpace);
  if (first == std::string_view::npos) return {};
  return text.substr(first, text.find_last_not_of(kSpace) - first + 1);
}

void refuse_whole_file_profile(std::string_view text, std::string_view codec) {
  const std::string lower = ascii_lower(codec);
  if (lower == "fp4") {
    fail(ErrorKind::kUsage,
         "override '{}': fp4 is a profile for whole files; use mxfp4 for single tensors", text);
  }
  if (lower == "q2tp_affine" || lower == "q2tp-affine" || lower == "q2t_affine") {
    fail(ErrorKind::kUsage,
         "override '{}': q2tp_affine is a profile for whole files; use q2tp for single tensors",
         text);
  }
}

}  // namespace

bool glob_match(std::string_view pattern, std::string_view name) noexcept {
  std::size_t p = 0;
  std::size_t n = 0;
  std::size_t star = std::string_view::npos;  // last star, to which a mismatch returns
  std::size_t resume = 0;
  while (n < name.size()) {
    if (p < pattern.size() && pattern[p] == '*') {
      star = p++;
      resume = n;
    } else if (p < pattern.size() && pattern[p] == name[n]) {
      ++p;
      ++n;
    } else if (star != std::string_view::npos) {
      p = star + 1;
      n = ++resume;
    } else {
      return false;
    }
  }
  while (p < pattern.size() && pattern[p] == '*') ++p;
  return p == pattern.size();
}

bool keeps_f32(std::string_view name) noexcept { return ends_with_any(name, kF32Suffixes); }

bool keeps_f16(std::string_view name) noexcept {
  if (ends_with_any(name, kF16Suffixes) || name.starts_with("speech_embeddings.")) return true;
  return contains(name, "hyper_connection") &&
         (contains(name, "input_mix_weight_") || contains(name, "block_inject_weight"));
}

bool keeps_float(std::string_view name) noexcept {
  return keeps_f32(name) || keeps_f16(name) || name.starts_with("vis.");
}

bool is_vocabulary_edge(std::string_view name) noexcept {
  return name == "model.embed_tokens.weight" || name == "lm_head.weight";
}

Codec profile_codec(Codec requested, std::string_view name, const ModelTraits& model) {
  const bool gate_or_up = is_expert(name) && ends_with_any(name, kGateUpSuffixes);
  const bool dense_gate_or_up = !model.has_moe && is_dense_gate_or_up(name);
  Codec codec = requested;
  if (requested == Codec::kQ2tp && !gate_or_up && !dense_gate_or_up) codec = Codec::kQ4tp;
  if (codec != Codec::kQ4tp && codec != Codec::kQ2tp) return codec;
  return arch_wants_q8_2f(name, model) ? Codec::kQ82f : codec;
}

Codec fp4_profile_codec(std::string_view name, const ModelTraits& model) {
  if (is_expert(name) && ends_with_any(name, kFp4Suffixes)) return Codec::kMxfp4;
  return profile_codec(Codec::kQ4tp, name, model);
}

TensorOverride parse_override(std::string_view text) {
  const std::size_t split = text.rfind('=');
  if (split == std::string_view::npos) {
    fail(ErrorKind::kUsage, "override '{}': no '='; expected PATTERN=CODEC", text);
  }
  const std::string_view pattern = trim(text.substr(0, split));
  const std::string_view name = trim(text.substr(split + 1));
  if (pattern.empty())
    fail(ErrorKind::kUsage, "override '{}': empty pattern; expected PATTERN=CODEC", text);
  refuse_whole_file_profile(text, name);
  const auto codec = try_parse_codec(name);
  if (!codec)
    fail(ErrorKind::kUsage, "override '{}': unknown codec '{}'; known: {}", text, name,
         codec_names());
  return {std::string(pattern), *codec};
}

std::optional<Codec> override_codec(const std::vector<TensorOverride>& overrides,
                                    std::string_view name) {
  for (const TensorOverride& entry : overrides) {
    if (glob_match(entry.pattern, name)) return entry.codec;
  }
  return std::nullopt;
}

}  // namespace cortiq::codec
