// arch.hpp: the architecture record of the header as plain numbers (cmf.md section 5.2).
#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "cortiq/cmf/source.hpp"

namespace cortiq::model {

enum class LayerType { kFull, kSliding, kLinear };
enum class NormStyle { kQwen, kGemma };  ///< x*w or x*(1+w)
enum class Activation { kSilu, kGeluTanh, kGelu };

/// Frequency interpolation by wavelength; replaces the table of full-attention layers (cmf.md
/// section 5.6).
struct Yarn {
  double factor = 1;
  double original_positions = 0;
  double beta_fast = 32;
  double beta_slow = 1;
  double attention_factor = 1;  ///< multiplies cosine and sine
};

/// Routed and shared experts (cmf.md section 5.3).
struct Experts {
  std::int64_t top_k = 0;
  std::int64_t width = 0;    ///< widest expert, from the tensors
  bool renormalise = false;  ///< the weights of the chosen experts sum to 1
  bool sigmoid = false;      ///< scores are independent sigmoids instead of one softmax
  double scale = 1;          ///< of the weights
};

/// Gated DeltaNet: a matrix state per value head instead of keys and values (cmf.md section 5.5).
struct DeltaNet {
  std::int64_t key_heads = 0;
  std::int64_t value_heads = 0;
  std::int64_t key_dim = 0;
  std::int64_t value_dim = 0;
  std::int64_t taps = 0;  ///< of the causal convolution
  [[nodiscard]] std::int64_t key_width() const { return key_heads * key_dim; }
  [[nodiscard]] std::int64_t value_width() const { return value_heads * value_dim; }
  /// Channels of the convolution: queries, keys, values.
  [[nodiscard]] std::int64_t conv_width() const { return 2 * key_width() + value_width(); }
  /// Rows of in_proj_qkv, z, a and b together.
  [[nodiscard]] std::int64_t in_width() const {
    return conv_width() + value_width() + 2 * value_heads;
  }
};

struct Arch {
  std::string name;
  std::int64_t hidden = 0;
  std::int64_t intermediate = 0;  ///< widest dense MLP or shared expert, from the tensors
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
  double attention_scale = 0;  ///< 1/sqrt(head_dim) or 1/sqrt(query_pre_attn_scalar)
  std::optional<double> attention_softcap;
  std::optional<double> final_softcap;
  std::int64_t sliding_window = 0;  ///< 0 = none; the token itself counts
  std::vector<LayerType>
      layer_types;  ///< size == layers; sliding already resolved from the pattern
  double rope_theta = 10000;
  double rope_local_theta =
      10000;  ///< of sliding layers; equals rope_theta where the header names none
  bool has_local_rope = false;
  std::int64_t rotary_dim = 0;
  std::vector<double> rope_factors;  ///< inv_freq[i] /= factors[i] (global table); may be empty
  std::optional<Yarn> yarn;
  bool qk_norm_after_rope = false;
  bool qkv_bias = false;        ///< q, k and v have biases
  bool qk_norm = false;         ///< q and k heads are normed
  bool output_gate = false;     ///< q_proj holds [q; gate] per head
  bool sandwich_norms = false;  ///< norms behind the mixer and around the MLP (Gemma 2 and 3)
  bool tied_head = false;
  std::optional<Experts> experts;
  std::vector<std::int64_t> layer_experts;  ///< routed experts per layer; 0 = dense MLP
  std::optional<DeltaNet> delta_net;        ///< set where a layer is kLinear
  std::optional<std::uint32_t> bos_token;
  std::vector<std::uint32_t> eos_tokens;
};

/// Outputs of q_proj: heads, twice as wide with an output gate.
[[nodiscard]] std::int64_t query_width(const Arch& arch) noexcept;
/// Columns of what the mixer of a layer puts out, in front of its projection.
[[nodiscard]] std::int64_t mixer_width(const Arch& arch, std::int64_t layer) noexcept;
[[nodiscard]] bool is_linear(const Arch& arch, std::int64_t layer) noexcept;
[[nodiscard]] bool has_experts(const Arch& arch, std::int64_t layer) noexcept;

/// "model.layers.{layer}.{suffix}"
[[nodiscard]] std::string layer_tensor(std::int64_t layer, std::string_view suffix);

/// Reads and checks the record and the presence and shapes of the tensors that the forward needs.
/// Throws Error{kInput} for an inconsistent file, Error{kUnsupported} for a family or feature
/// without a forward pass (the message names it).
[[nodiscard]] Arch read_arch(const cmf::Source& source);

}  // namespace cortiq::model
