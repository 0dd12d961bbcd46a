#include "sequential_plan.hpp"

#include "gptq_run.hpp"

namespace cortiq::pipeline {
namespace {

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
      "  effort {}: {}{} polish passes{}{}, {}", effort_name(options.effort), parts, options.polish,
      options.group_moves ? " with group moves" : "", options.row_scale ? " and row scales" : "",
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
