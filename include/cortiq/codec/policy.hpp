// policy.hpp: which codec a tensor gets: forced-float names, profiles, architecture exceptions,
// globs, overrides (codecs.md section 10, cli.md section 3).
#pragma once

#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "cortiq/codec/codec.hpp"

namespace cortiq::codec {

/// Whole-name match; `*` stands for any run of bytes, empty and dots included; nothing else is
/// special.
[[nodiscard]] bool glob_match(std::string_view pattern, std::string_view name) noexcept;

[[nodiscard]] bool keeps_f32(std::string_view name) noexcept;
[[nodiscard]] bool keeps_f16(std::string_view name) noexcept;
/// keeps_f32, keeps_f16 or a name that begins with "vis.".
[[nodiscard]] bool keeps_float(std::string_view name) noexcept;
/// model.embed_tokens.weight, lm_head.weight.
[[nodiscard]] bool is_vocabulary_edge(std::string_view name) noexcept;

/// What the profile rules need to know of a model.
struct ModelTraits {
  std::string arch_name;
  bool has_moe = false;
  bool gated_delta_net = false;  ///< linear_core.kind
  bool qwen4_exp = false;
};

/// Codec of a 2-D tensor under the whole-file profile `requested` (codecs.md 10.4).
[[nodiscard]] Codec profile_codec(Codec requested, std::string_view name, const ModelTraits& model);

/// The same under the whole-file profile "fp4": mxfp4 for the matrices of experts, else as q4tp.
[[nodiscard]] Codec fp4_profile_codec(std::string_view name, const ModelTraits& model);

/// PATTERN=CODEC.
struct TensorOverride {
  std::string pattern;
  Codec codec = Codec::kF16;
};
/// Splits at the last '='; throws Error{kUsage} for a missing '=', an empty pattern, an unknown or
/// whole-file codec.
[[nodiscard]] TensorOverride parse_override(std::string_view text);
/// First match wins.
[[nodiscard]] std::optional<Codec> override_codec(const std::vector<TensorOverride>& overrides,
                                                  std::string_view name);

}  // namespace cortiq::codec
