#include "cortiq/hf/names.hpp"

#include <algorithm>
#include <array>

namespace cortiq::hf {
namespace {

constexpr std::array<std::string_view, 11> kDroppedPrefixes = {"model.vision_embedder.",
                                                               "model.embed_audio.",
                                                               "model.embed_vision.",
                                                               "vision_tower.",
                                                               "mm_projector.",
                                                               "model.audio_tower.",
                                                               "model.vision_tower.",
                                                               "model.merger.",
                                                               "model.visual.",
                                                               "multi_modal_projector.",
                                                               "model.multi_modal_projector."};

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

bool contains(std::string_view text, std::string_view piece) {
  return text.find(piece) != std::string_view::npos;
}

void replace_once(std::string& text, std::string_view from, std::string_view to) {
  const std::size_t at = text.find(from);
  if (at != std::string::npos) text.replace(at, from.size(), to);
}

/// Text behind the multi-token-prediction prefix.
std::optional<std::string_view> mtp_rest(std::string_view name) {
  for (const std::string_view prefix : {"mtp.", "model.mtp."}) {
    if (name.starts_with(prefix)) return name.substr(prefix.size());
  }
  const std::size_t at = name.find(".mtp.");
  if (at == std::string_view::npos) return std::nullopt;
  return name.substr(at + 5);
}

std::string map_mtp(std::string_view rest) {
  if (rest == "fc.weight") return "model.mtp.eh_proj.weight";
  if (rest == "pre_fc_norm_embedding.weight") return "model.mtp.enorm.weight";
  if (rest == "pre_fc_norm_hidden.weight") return "model.mtp.hnorm.weight";
  return "model.mtp." + std::string(rest);
}

/// Name without the wrapper of a multimodal model; nullopt where there is none.
std::optional<std::string> strip_wrapper(std::string_view name) {
  for (const std::string_view prefix :
       {"model.language_model.", "language_model.model.", "language_model."}) {
    if (!name.starts_with(prefix)) continue;
    const std::string_view rest = name.substr(prefix.size());
    if (rest.starts_with("lm_head.")) return std::string(rest);
    return "model." + std::string(rest);
  }
  return std::nullopt;
}

void rename_experts(std::string& name) {
  if (contains(name, ".block_sparse_moe.")) {
    replace_once(name, ".block_sparse_moe.gate.e_score_correction_bias", ".mlp.expert_bias");
    replace_once(name, ".block_sparse_moe.shared_experts.", ".mlp.shared_expert.");
    replace_once(name, ".block_sparse_moe.", ".mlp.");
    if (contains(name, ".experts.") || contains(name, ".shared_expert.")) {
      replace_once(name, ".w1.", ".gate_proj.");
      replace_once(name, ".w3.", ".up_proj.");
      replace_once(name, ".w2.", ".down_proj.");
    }
  }
  replace_once(name, ".mlp.shared_experts.", ".mlp.shared_expert.");
  replace_once(name, ".mlp.experts.e_score_correction_bias", ".mlp.expert_bias");
}

}  // namespace

std::optional<std::string> map_name(std::string_view name) {
  std::string current(name);
  for (;;) {
    if (contains(current, ".visual.") || current.starts_with("visual.")) return std::nullopt;
    if (current.ends_with("rotary_emb.inv_freq")) return std::nullopt;
    if (const auto rest = mtp_rest(current)) {
      std::string mapped = map_mtp(*rest);
      rename_experts(mapped);
      return mapped;
    }
    const auto dropped = [&](std::string_view prefix) { return current.starts_with(prefix); };
    if (std::any_of(kDroppedPrefixes.begin(), kDroppedPrefixes.end(), dropped)) return std::nullopt;
    auto stripped = strip_wrapper(current);
    if (!stripped) break;
    current = std::move(*stripped);
  }
  rename_experts(current);
  return current;
}

bool keeps_f32(std::string_view name) noexcept {
  return std::any_of(kF32Suffixes.begin(), kF32Suffixes.end(),
                     [&](std::string_view suffix) { return name.ends_with(suffix); });
}

}  // namespace cortiq::hf
