#include "cortiq/cmf/features.hpp"

#include <algorithm>
#include <array>
#include <string_view>

namespace cortiq::cmf {
namespace {

constexpr std::array<std::string_view, 16> kNames{
    "TENSOR_DIR",    "BINARY_MASKS",   "QUANT_2F",     "DELTA_MASKS",    "HOT_PACKS", "LOOP_MASKS",
    "SKILL_FILE",    "PRISM_HADAMARD", "PRISM_AFFINE", "SKILLS_V2",      "ROUTER_V2", "DECISION",
    "BOUNDED_STATE", "GENOME",         "ORGANISM_V1",  "BLOCK_DIFFUSION"};

struct Refusal {
  std::uint32_t feature;
  std::string_view reason;
};

constexpr std::array<Refusal, 6> kRefusals{{
    {feature::kSkillFile, "it is a skill file, which holds only part of a model"},
    {feature::kPrismHadamard, "its matrices are stored in a rotated basis (PRISM_HADAMARD)"},
    {feature::kPrismAffine,
     "its matrices are stored in a rotated basis with offsets (PRISM_AFFINE)"},
    {feature::kDecision, "it is a decision model, not a language model"},
    {feature::kBoundedState,
     "its bounded-state layers (BOUNDED_STATE) are not known to this program"},
    {feature::kGenome, "its weights are frozen by a genome record, which any change invalidates"},
}};

bool is_set(const Json& object, const char* key) {
  if (!object.is_object()) return false;
  const auto found = object.find(key);
  return found != object.end() && !found->is_null();
}

bool any_skill_has(const Json& header, const char* key) {
  const auto skills = header.find("skills");
  if (skills == header.end() || !skills->is_array()) return false;
  return std::any_of(skills->begin(), skills->end(),
                     [key](const Json& skill) { return is_set(skill, key); });
}

bool is_looped(const Json& arch) {
  const auto loops = arch.find("num_loops");
  return loops != arch.end() && loops->is_number_integer() && loops->get<std::int64_t>() > 1;
}

}  // namespace

std::string feature_names(std::uint32_t features) {
  std::string text;
  for (std::uint32_t bit = 0; bit < 32; ++bit) {
    if ((features >> bit & 1U) == 0) continue;
    if (!text.empty()) text += ", ";
    text += bit < kNames.size() ? std::string(kNames[bit]) : "bit " + std::to_string(bit);
  }
  return text.empty() ? "none" : text;
}

std::uint32_t derive_features(const Header& header, const std::vector<DType>& dtypes,
                              bool has_masks) {
  const Json& json = header.json();
  const Json& arch = header.arch();
  std::uint32_t bits = feature::kTensorDir;
  const auto set_if = [&bits](bool condition, std::uint32_t feature) {
    if (condition) bits |= feature;
  };
  set_if(has_masks, feature::kBinaryMasks);
  set_if(std::any_of(dtypes.begin(), dtypes.end(),
                     [](DType d) { return d == DType::kQ82f || d == DType::kVbit; }),
         feature::kQuant2f);
  set_if(has_masks && is_looped(arch), feature::kLoopMasks);
  if (!json.is_object()) return bits;
  set_if(any_skill_has(json, "base_dir_hash"), feature::kSkillFile);
  set_if(any_skill_has(json, "kind"), feature::kSkillsV2);
  set_if(is_set(json, "router"), feature::kRouterV2);
  set_if(is_set(json, "genome"), feature::kGenome);
  set_if(is_set(arch, "prism_hadamard"), feature::kPrismHadamard);
  set_if(is_set(arch, "prism_hadamard") && is_set(arch["prism_hadamard"], "affine"),
         feature::kPrismAffine);
  set_if(header.arch_name().rfind("cortiq-decision-", 0) == 0, feature::kDecision);
  set_if(is_set(arch, "anchor_core"), feature::kBoundedState);
  set_if(is_set(arch, "block_diffusion"), feature::kBlockDiffusion);
  return bits;
}

std::string refuse_reason_for_quantize(std::uint32_t features) {
  for (const Refusal& refusal : kRefusals) {
    if ((features & refusal.feature) != 0) return std::string(refusal.reason);
  }
  return {};
}

}  // namespace cortiq::cmf
