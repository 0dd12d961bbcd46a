#include "cortiq/model/roles.hpp"

namespace cortiq::model {
namespace {

InputGroup make_group(const cmf::Source& source, std::int64_t layer, Role role, std::int64_t width,
                      std::initializer_list<std::string_view> suffixes) {
  InputGroup group{layer, role, -1, width, {}};
  for (const std::string_view suffix : suffixes) {
    std::string name = layer_tensor(layer, suffix);
    if (source.find(name)) group.tensors.push_back(std::move(name));
  }
  return group;
}

}  // namespace

std::string_view role_name(Role role) noexcept {
  switch (role) {
    case Role::kIn:
      return "in";
    case Role::kMixOut:
      return "mixout";
    case Role::kMlp:
      return "mlp";
    case Role::kDown:
      return "down";
    case Role::kExpertIn:
      return "expert-in";
    case Role::kExpertDown:
      return "expert-down";
    case Role::kSharedDown:
      return "shared-down";
    case Role::kHead:
      return "head";
  }
  return "?";
}

std::vector<InputGroup> input_groups(const Arch& arch, const cmf::Source& source) {
  std::vector<InputGroup> groups;
  for (std::int64_t layer = 0; layer < arch.layers; ++layer) {
    groups.push_back(make_group(
        source, layer, Role::kIn, arch.hidden,
        {"self_attn.q_proj.weight", "self_attn.k_proj.weight", "self_attn.v_proj.weight"}));
    groups.push_back(make_group(source, layer, Role::kMixOut, arch.heads * arch.v_head_dim,
                                {"self_attn.o_proj.weight"}));
    groups.push_back(make_group(source, layer, Role::kMlp, arch.hidden,
                                {"mlp.gate_proj.weight", "mlp.up_proj.weight"}));
    const auto down = source.find(layer_tensor(layer, "mlp.down_proj.weight"));
    const std::int64_t width = down ? source.tensors()[*down].shape.back() : arch.intermediate;
    groups.push_back(make_group(source, layer, Role::kDown, width, {"mlp.down_proj.weight"}));
  }
  if (source.find("lm_head.weight")) {
    groups.push_back({arch.layers, Role::kHead, -1, arch.hidden, {"lm_head.weight"}});
  }
  return groups;
}

}  // namespace cortiq::model
