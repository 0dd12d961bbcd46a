#include "sequential_plan.hpp"

#include <algorithm>

#include "gptq_run.hpp"
#include "memory_plan.hpp"
#include "sequential.hpp"

namespace cortiq::pipeline {
namespace {

std::uint64_t bytes_of(std::int64_t rows, std::int64_t cols, std::uint64_t element) {
  return static_cast<std::uint64_t>(rows) * static_cast<std::uint64_t>(cols) * element;
}

const char* effort_name(Effort effort) {
  switch (effort) {
    case Effort::kFast:
      return "fast";
    case Effort::kHigh:
      return "high";
    case Effort::kDefault:
      break;
  }
  return "default";
}

}  // namespace

bool runs_sequentially(const GptqOptions& options) {
  const SequentialOptions& sequential = options.sequential;
  if (options.hessians && (sequential.wanted == true || (!sequential.wanted.has_value() &&
                                                         options.effort == Effort::kHigh))) {
    fail(ErrorKind::kUsage,
         "--hessians {}: cannot serve sequential calibration ({}), whose Hessians depend on the "
         "quantized layers before; leave out one of them, or give --no-sequential",
         options.hessians->string(),
         sequential.wanted == true ? "--sequential" : "part of --effort high");
  }
  if (sequential.wanted) return *sequential.wanted;
  if (options.effort == Effort::kHigh) return true;
  return options.effort == Effort::kDefault && !options.hessians &&
         options.selection.profile == codec::Codec::kQ2tp;
}

void set_sequential_needs(Plan& plan, const cmf::Source& source, const model::Forward& forward,
                          std::int64_t tokens) {
  const model::Arch& arch = forward.arch();
  MemoryPlan& memory = plan.memory;
  // Two streams, what a stage keeps of the quantized one, and with experts the sums of both.
  const std::int64_t width =
      (arch.experts ? 4 : 2) * arch.hidden + kept_width(arch);
  memory.hidden_states = bytes_of(tokens, width, sizeof(float));
  memory.layer_weights = 2 * forward.layer_memory_bytes(tokens);
  if (arch.experts) memory.layer_weights += 2 * model::ExpertStream::scratch_bytes(arch, tokens);
  // Sums of an input, then the target that they give, then the sweep towards it; with experts beside
  // the sums of the others.
  memory.hessians = 0;
  memory.solve = 0;
  std::uint64_t pooled = 0;
  for (const GroupPlan& group : plan.groups) {
    const bool joins = group.role == model::Role::kMixOut || group.role == model::Role::kDown;
    const std::int64_t rows = group.width + (joins ? arch.hidden : 0);
    const std::uint64_t hessian = group_hessian_bytes(group);
    const std::uint64_t moments = hessian + calib::capture_carry_bytes(group.width) +
                                  bytes_of(rows, group.width, sizeof(double));
    std::uint64_t targets = 0;
    for (const std::size_t index : group.tensors)
      targets += bytes_of(source.tensors()[index].elements(), 1, sizeof(float));
    const std::uint64_t square = bytes_of(group.width, group.width, sizeof(double));
    if (group.place) pooled = std::max(pooled, hessian + square);
    memory.hessians = std::max(memory.hessians, moments + square + targets);
    memory.solve =
        std::max(memory.solve, hessian + solve_bytes(plan, group, source, plan.threads));
  }
  memory.hessians += 2 * pooled;
  memory.solve += 2 * pooled;
}

void add_recipe(cmf::Json& json, const GptqOptions& options) {
  json["effort"] = effort_name(options.effort);
  json["sequential"] = runs_sequentially(options);
  if (!runs_sequentially(options)) return;
  json["seq_alpha"] = options.sequential.alpha;
  json["seq_rho"] = options.sequential.rho;
}

std::vector<std::string> recipe_lines(const GptqOptions& options) {
  const cmf::Json json = options_json(options);
  std::string parts;
  for (const char* key : {"order", "rung", "ladder"}) {
    if (json.contains(key)) parts += fmt::format("{} {}, ", key, json[key].get<std::string>());
  }
  std::vector<std::string> lines{fmt::format(
      "  effort {}: {}{} polish passes, {}", effort_name(options.effort), parts, options.polish,
      runs_sequentially(options) ? "sequential" : "one-shot")};
  if (!runs_sequentially(options)) return lines;
  lines.push_back(
      fmt::format("  sequential calibration (alpha {:g}, rho {:g}): each layer is calibrated on "
                  "what the quantized layers before it give, and corrected towards the original "
                  "outputs",
                  options.sequential.alpha, options.sequential.rho));
  lines.emplace_back(
      "    takes two to three times as long as --no-sequential with the same tokens");
  return lines;
}

}  // namespace cortiq::pipeline
