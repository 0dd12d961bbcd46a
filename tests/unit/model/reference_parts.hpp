// reference_parts.hpp: the gated delta rule and the routing of experts, in f64 and word by word
// from calibration.md section 4 and cmf.md section 5.3.
#pragma once

#include <vector>

#include "reference_model.hpp"

namespace cortiq::model::test {

/// What goes into the linear attention of one window.
struct ReferenceDelta {
  Values qkv;  ///< products of in_proj_qkv
  Values a;
  Values b;
  std::size_t tokens;
  const std::vector<float>& conv;  ///< [channels, 1, taps]
  const std::vector<float>& a_log;
  const std::vector<float>& dt_bias;
};
/// [tokens, value heads, value_dim], in front of the gated norm.
[[nodiscard]] Values reference_delta_rule(const cmf::Json& arch, const ReferenceDelta& delta);

/// The weight of each expert for one row of router logits; zero where it is not chosen.
[[nodiscard]] Values reference_route(const cmf::Json& moe, const Values& logits,
                                     const Values& bias);

}  // namespace cortiq::model::test
