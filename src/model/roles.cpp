#include "cortiq/model/roles.hpp"

#include <charconv>
#include <system_error>
#include <utility>

#include "cortiq/support/error.hpp"

namespace cortiq::model {
namespace {

class Groups {
 public:
  Groups(const Arch& arch, const cmf::Source& source) : arch_(arch), source_(source) {}

  void add_layer(std::int64_t layer) {
    layer_ = layer;
    if (is_linear(arch_, layer)) {
      add(Role::kIn, arch_.hidden,
          {"linear_attn.in_proj_qkv.weight", "linear_attn.in_proj_z.weight",
           "linear_attn.in_proj_a.weight", "linear_attn.in_proj_b.weight"});
      add(Role::kMixOut, mixer_width(arch_, layer), {"linear_attn.out_proj.weight"});
    } else {
      add(Role::kIn, arch_.hidden,
          {"self_attn.q_proj.weight", "self_attn.k_proj.weight", "self_attn.v_proj.weight"});
      add(Role::kMixOut, mixer_width(arch_, layer), {"self_attn.o_proj.weight"});
    }
    if (has_experts(arch_, layer)) {
      add_experts();
    } else {
      add(Role::kMlp, arch_.hidden, {"mlp.gate_proj.weight", "mlp.up_proj.weight"});
      add_down(Role::kDown, "mlp.down_proj.weight");
    }
  }

  [[nodiscard]] std::vector<InputGroup> take() { return std::move(groups_); }

 private:
  void add_experts() {
    add(Role::kMlp, arch_.hidden,
        {"mlp.gate.weight", "mlp.shared_expert.gate_proj.weight",
         "mlp.shared_expert.up_proj.weight", "mlp.shared_expert_gate.weight"});
    const std::int64_t count = arch_.layer_experts[static_cast<std::size_t>(layer_)];
    for (std::int64_t e = 0; e < count; ++e) {
      const std::string prefix = fmt::format("mlp.experts.{}.", e);
      add(Role::kExpertIn, arch_.hidden, {prefix + "gate_proj.weight", prefix + "up_proj.weight"},
          e);
      add_down(Role::kExpertDown, prefix + "down_proj.weight", e);
    }
    if (source_.find(layer_tensor(layer_, "mlp.shared_expert.down_proj.weight")))
      add_down(Role::kSharedDown, "mlp.shared_expert.down_proj.weight");
  }

  /// One tensor, whose columns are the width.
  void add_down(Role role, std::string_view suffix, std::int64_t expert = -1) {
    const auto down = source_.find(layer_tensor(layer_, suffix));
    const std::int64_t width = down ? source_.tensors()[*down].shape.back() : arch_.intermediate;
    add(role, width, {std::string(suffix)}, expert);
  }

  void add(Role role, std::int64_t width, const std::vector<std::string>& suffixes,
           std::int64_t expert = -1) {
    InputGroup group{layer_, role, expert, width, {}};
    for (const std::string& suffix : suffixes) {
      std::string name = layer_tensor(layer_, suffix);
      if (source_.find(name)) group.tensors.push_back(std::move(name));
    }
    groups_.push_back(std::move(group));
  }

  const Arch& arch_;
  const cmf::Source& source_;
  std::int64_t layer_ = 0;
  std::vector<InputGroup> groups_;
};

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

std::optional<ExpertPlace> expert_place(std::string_view tensor) {
  ExpertPlace place;
  std::string_view rest = tensor;
  const auto skip = [&](std::string_view text) {
    const bool there = rest.substr(0, text.size()) == text;
    if (there) rest.remove_prefix(text.size());
    return there;
  };
  const auto number = [&](std::int64_t& value) {
    const auto [end, error] = std::from_chars(rest.data(), rest.data() + rest.size(), value);
    const bool fine = error == std::errc() && value >= 0;
    if (fine) rest.remove_prefix(static_cast<std::size_t>(end - rest.data()));
    return fine;
  };
  if (!skip("model.layers.") || !number(place.layer) || !skip(".mlp.experts.") ||
      !number(place.expert))
    return std::nullopt;
  place.down = rest == ".down_proj.weight";
  if (!place.down && rest != ".gate_proj.weight" && rest != ".up_proj.weight") return std::nullopt;
  return place;
}

std::optional<std::int64_t> layer_in_name(std::string_view name) {
  constexpr std::string_view kLayers = "layers.";
  const auto at = name.find(kLayers);
  if (at == std::string_view::npos) return std::nullopt;
  const std::string_view rest = name.substr(at + kLayers.size());
  std::int64_t layer = 0;
  const auto [end, error] = std::from_chars(rest.data(), rest.data() + rest.size(), layer);
  return error == std::errc() ? std::optional(layer) : std::nullopt;
}

std::vector<InputGroup> input_groups(const Arch& arch, const cmf::Source& source) {
  Groups groups(arch, source);
  for (std::int64_t layer = 0; layer < arch.layers; ++layer) groups.add_layer(layer);
  std::vector<InputGroup> all = groups.take();
  if (source.find("lm_head.weight"))
    all.push_back({arch.layers, Role::kHead, -1, arch.hidden, {"lm_head.weight"}});
  return all;
}

}  // namespace cortiq::model
