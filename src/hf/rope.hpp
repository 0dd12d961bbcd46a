// rope.hpp: rotary position settings of config.json -> keys of the header (cmf.md sections 5.6
// and 9.2). Both spellings are read: rope_theta + rope_scaling{type | rope_type}, and
// rope_parameters, flat or per layer type. Where a file has both, precedence is that of transformers 5: an object before
// the keys beside it, rope_scaling before a flat rope_parameters (which it replaces) and before rope_parameters.full_attention.
#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <vector>

#include "fields.hpp"

namespace cortiq::hf {

struct Rope {
  double theta = 10000;
  std::optional<double> local_theta;  ///< of sliding layers; absent = theta
  double rotary_share = 1;            ///< partial_rotary_factor
  std::optional<double> local_rotary_share;
  std::vector<double> factors;  ///< global inv_freq[i] /= factors[i]; empty = none
  std::optional<cmf::Json> yarn;
  std::vector<std::string> warnings;  ///< settings that the file states twice and differently
};

/// @param text  the text model's keys    @param default_theta, default_local_theta  of the model
/// family Throws Error{kUnsupported} naming an unknown variant.
[[nodiscard]] Rope read_rope(const Fields& text, std::int64_t head_dim, double default_theta,
                             std::optional<double> default_local_theta);

}  // namespace cortiq::hf
