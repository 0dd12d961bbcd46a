// arch.hpp: the architecture record of the header as plain numbers (cmf.md section 5.2).
#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <vector>

#include "cortiq/cmf/source.hpp"

namespace cortiq::model {

enum class LayerType { kFull, kSliding, kLinear };
enum class NormStyle { kQwen, kGemma };  ///< x*w or x*(1+w)
enum class Activation { kSilu, kGeluTanh, kGelu };

struct Arch {
  std::string name;
  std::int64_t hidden = 0;
  std::int64_t layers = 0;
  std::int64_t heads = 0;
  std::int64_t kv_heads = 0;
  std::int64_t head_dim = 0;
  std::int64_t v_head_dim = 0;
  std::int64_t vocab = 0;
  std::int64_t max_positions = 0;
  double norm_eps = 1e-6;
  NormStyle norm_style = NormStyle::kQwen;
  Activation activation = Activation::kSilu;
  float embed_multiplier = 1.0F;
  std::optional<float> logit_multiplier;
  double attention_scale = 0;                 ///< 1/sqrt(head_dim) or 1/sqrt(query_pre_attn_scalar)
  std::optional<double> attention_softcap;
  std::optional<double> final_softcap;
  std::int64_t sliding_window = 0;            ///< 0 = none; the token itself counts
  std::vector<LayerType> layer_types;         ///< size == layers; sliding already resolved from the pattern
  double rope_theta = 10000;
  double rope_local_theta = 10000;            ///< of sliding layers; equals rope_theta where the header names none
  bool has_local_rope = false;
  std::int64_t rotary_dim = 0;
  std::vector<double> rope_factors;           ///< inv_freq[i] /= factors[i] (global table); may be empty
  bool qk_norm_after_rope = false;
  bool tied_head = false;
  std::optional<std::uint32_t> bos_token;
  std::vector<std::uint32_t> eos_tokens;
};

/// Reads and checks the record and the presence and shapes of the tensors that the forward needs.
/// Throws Error{kInput} for an inconsistent file, Error{kUnsupported} for a family or feature without a forward pass (the
/// message names it).
[[nodiscard]] Arch read_arch(const cmf::Source& source);

}  // namespace cortiq::model
