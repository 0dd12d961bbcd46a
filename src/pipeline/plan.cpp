#include "cortiq/pipeline/plan.hpp"

#include <algorithm>
#include <map>
#include <unordered_map>

#include "cortiq/gptq/one_bit.hpp"
#include "cortiq/pipeline/model_source.hpp"

namespace cortiq::pipeline {
namespace {

/// Sizes of q1s and vbit depend on the weights: encode once to learn them.
std::uint64_t measured_bytes(const cmf::Source& source, std::size_t index, codec::Codec codec,
                             float q1s_keep, bool sanitize, Pool& pool) {
  DecodedTensor tensor = decode_tensor(source, index, pool);
  check_finite(tensor, source.tensors()[index].name,
               sanitize ? NonFinite::kSanitize : NonFinite::kRefuse, pool);
  codec::EncodeOptions options;
  options.q1s_keep = q1s_keep;
  const auto payload = codec::encode(codec, tensor.view(), options, pool);
  source.release(index);
  return payload.size();
}

/// What a GPTQ candidate takes, known before its codes are.
std::optional<std::uint64_t> gptq_bytes(const TensorChoice& choice,
                                        const std::vector<std::int64_t>& shape) {
  const gptq::Target target = *gptq_target(choice.codec);
  if (!gptq::is_one_bit(target))
    return cmf::fixed_payload_bytes(codec::dtype_of(choice.codec), shape);
  gptq::check_one_bit_shape(target, shape[0], shape[1]);
  return gptq::one_bit_bytes(target, shape[0], shape[1], choice.one_bit);
}

}  // namespace

Plan plan_tensors(const cmf::Source& source, const SelectionOptions& selection, float q1s_keep,
                  bool sanitize, Context& context) {
  Plan plan;
  plan.choices = select_tensors(source, selection);
  for (std::size_t i = 0; i < plan.choices.size(); ++i) {
    const cmf::TensorInfo& info = source.tensors()[i];
    cmf::PlannedTensor planned{info.name, info.dtype, info.shape, info.nbytes};
    if (plan.choices[i].action != Action::kCopy) {
      planned.dtype = codec::dtype_of(plan.choices[i].codec);
      const auto fixed = plan.choices[i].action == Action::kGptq
                             ? gptq_bytes(plan.choices[i], planned.shape)
                             : cmf::fixed_payload_bytes(planned.dtype, planned.shape);
      planned.nbytes = fixed ? *fixed
                             : measured_bytes(source, i, plan.choices[i].codec, q1s_keep, sanitize,
                                              context.pool);
    }
    plan.input_bytes += info.nbytes;
    plan.output.push_back(std::move(planned));
  }
  plan.output_bytes = cmf::plan_file_bytes(source.header(), plan.output,
                                           {source.masks(), source.vocab(), source.mask_index()});
  return plan;
}

std::string name_list(const std::vector<std::string>& names) {
  constexpr std::size_t kMost = 40;
  const std::size_t shown = std::min(names.size(), kMost);
  std::string text = fmt::format(
      "{}", fmt::join(names.begin(), names.begin() + static_cast<std::ptrdiff_t>(shown), ", "));
  if (shown < names.size()) text += fmt::format(" and {} more", names.size() - shown);
  return text;
}

std::string unfit_text(const Plan& plan, const cmf::Source& source) {
  std::vector<std::string> names;
  for (std::size_t i = 0; i < plan.choices.size(); ++i) {
    const cmf::TensorInfo& info = source.tensors()[i];
    if (!plan.choices[i].missed) continue;
    names.push_back(fmt::format("{} (width {}, {})", info.name, info.shape[1],
                                plan.choices[i].action == Action::kCopy ? "copied" : "rounded"));
  }
  if (names.empty()) return {};
  return fmt::format("{} matrices cannot be quantized with GPTQ, as their width is not a multiple of 32: {}",
                     names.size(), name_list(names));
}

void plan_groups_by_structure(Plan& plan, const cmf::Source& source, const model::Arch& arch) {
  std::vector<bool> grouped(plan.choices.size(), false);
  for (const model::InputGroup& input : model::input_groups(arch, source)) {
    GroupPlan group{input.layer, input.role, input.expert, input.width, input.tensors,
                    {},          0,          {},           {}};
    for (const std::string& name : input.tensors) {
      const auto index = source.find(name);
      if (!index || plan.choices[*index].action != Action::kGptq) continue;
      group.tensors.push_back(*index);
      grouped[*index] = true;
    }
    if (group.tensors.empty()) continue;
    group.place = model::expert_place(group.readers.front());
    plan.groups.push_back(std::move(group));
  }
  for (std::size_t i = 0; i < plan.choices.size(); ++i) {
    if (plan.choices[i].action != Action::kGptq || grouped[i]) continue;
    // A pure embedding is looked up, not multiplied: it has no input, is rounded, and does not
    // count as missed.
    if (source.tensors()[i].name.find("embed_tokens") != std::string::npos) {
      plan.choices[i].action = Action::kRound;
      plan.choices[i].reason = "an embedding has no input Hessian";
    } else {
      plan.ungrouped.push_back(i);
    }
  }
}

model::InputGroup input_of(const GroupPlan& group) {
  return {group.layer, group.role, group.expert, group.width, group.readers};
}

std::vector<model::InputGroup> input_groups_of(const std::vector<GroupPlan>& groups) {
  std::vector<model::InputGroup> inputs;
  std::transform(groups.begin(), groups.end(), std::back_inserter(inputs), input_of);
  return inputs;
}

BitsPerWeight bits_per_weight(const Plan& plan) {
  double layer_bits = 0, layer_weights = 0, all_bits = 0, all_weights = 0;
  for (const cmf::PlannedTensor& tensor : plan.output) {
    double weights = 1;
    for (const std::int64_t size : tensor.shape) weights *= static_cast<double>(size);
    const double bits = 8.0 * static_cast<double>(tensor.nbytes);
    all_bits += bits;
    all_weights += weights;
    if (tensor.shape.size() != 2 || codec::is_vocabulary_edge(tensor.name)) continue;
    layer_bits += bits;
    layer_weights += weights;
  }
  return {layer_weights > 0 ? layer_bits / layer_weights : 0, all_weights > 0 ? all_bits / all_weights : 0};
}

std::vector<std::string> plan_lines(const Plan& plan, const cmf::Source& source) {
  struct Row {
    std::int64_t tensors = 0;
    std::uint64_t weights = 0;
    std::uint64_t bytes = 0;
  };
  std::map<std::string, Row> rows;
  for (std::size_t i = 0; i < plan.choices.size(); ++i) {
    const bool edge = codec::is_vocabulary_edge(source.tensors()[i].name);
    const char* how = plan.choices[i].action == Action::kGptq    ? "GPTQ"
                      : plan.choices[i].action == Action::kRound ? "rounded"
                                                                 : "copied";
    Row& row = rows[fmt::format("{:<7} {:<8}{}", how, cmf::dtype_name(plan.output[i].dtype),
                                edge ? " (embedding, head)" : "")];
    ++row.tensors;
    row.weights += static_cast<std::uint64_t>(source.tensors()[i].elements());
    row.bytes += plan.output[i].nbytes;
  }
  std::vector<std::string> lines;
  for (const auto& [name, row] : rows) {
    const double bits =
        row.weights == 0 ? 0
                         : 8.0 * static_cast<double>(row.bytes) / static_cast<double>(row.weights);
    lines.push_back(
        fmt::format("  {:<35} {:>5} tensors {:>14} weights {:>14} bytes  {:.2f} bits per weight",
                    name, row.tensors, row.weights, row.bytes, bits));
  }
  const BitsPerWeight bits = bits_per_weight(plan);
  lines.push_back(fmt::format("  output file {} bytes ({:.1f} % of the input's {} payload bytes); {:.3f} bits per weight in all, "
                              "{:.3f} in the matrices without embedding and head",
                              plan.output_bytes,
                              100.0 * static_cast<double>(plan.output_bytes) /
                                  static_cast<double>(std::max<std::uint64_t>(plan.input_bytes, 1)),
                              plan.input_bytes, bits.all, bits.layers));
  return lines;
}

}  // namespace cortiq::pipeline
