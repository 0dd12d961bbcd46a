// roles.hpp: which linear layers read the same input (calibration.md section 4). Structural: no
// hashing of inputs.
#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "cortiq/model/arch.hpp"

namespace cortiq::model {

enum class Role {
  kIn,          ///< normed hidden: q, k, v (or the DeltaNet in-projections)
  kMixOut,      ///< mixer output before its projection: o_proj / out_proj
  kMlp,         ///< normed hidden: gate, up (and router, shared expert gate/up)
  kDown,        ///< act(gate)*up of a dense MLP
  kExpertIn,    ///< rows routed to one expert: its gate, up
  kExpertDown,  ///< act(gate)*up of one expert
  kSharedDown,  ///< act(gate)*up of the shared expert
  kHead,        ///< output of the final norm: lm_head (layer == number of layers)
};
[[nodiscard]] std::string_view role_name(Role role) noexcept;

/// One input and the tensors that read it.
struct InputGroup {
  std::int64_t layer = 0;
  Role role = Role::kIn;
  std::int64_t expert = -1;
  std::int64_t width = 0;  ///< columns of the input = cols of every tensor
  std::vector<std::string>
      tensors;  ///< names, in execution order; only those that exist in the source
};

/// Where the matrix of a routed expert belongs.
struct ExpertPlace {
  std::int64_t layer = 0;
  std::int64_t expert = 0;
  bool down = false;  ///< reads act(gate)*up instead of the normed hidden state
};
/// nullopt for every name but model.layers.L.mlp.experts.E.{gate,up,down}_proj.weight.
[[nodiscard]] std::optional<ExpertPlace> expert_place(std::string_view tensor);
/// Layer number in a name ("…layers.3.…"); nullopt outside the layers.
[[nodiscard]] std::optional<std::int64_t> layer_in_name(std::string_view name);

/// Every group of the model in execution order; the head (if lm_head.weight exists) comes last.
[[nodiscard]] std::vector<InputGroup> input_groups(const Arch& arch, const cmf::Source& source);

}  // namespace cortiq::model
