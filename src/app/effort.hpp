// effort.hpp: --effort and --sequential: what a recipe sets, what single options replace, which
// combinations are refused.
#pragma once

#include <functional>
#include <string>

#include <CLI/CLI.hpp>

#include "cortiq/pipeline/options.hpp"

namespace cortiq::app {

struct EffortArguments {
  std::string effort = "default";
  bool sequential = false;
  bool no_sequential = false;
};

void add_effort_options(CLI::App& command, EffortArguments& arguments,
                        pipeline::SequentialOptions& sequential);

/// Fills in what the recipe says and no option replaces: effort, polish, rung, tokens, sequential.
/// Runs after the single options are parsed. Error{kUsage} for contradictions.
void apply_effort(const CLI::App& command, const EffortArguments& arguments,
                  pipeline::GptqOptions& options);

}  // namespace cortiq::app
