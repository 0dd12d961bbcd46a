// sequential_plan.hpp: what sequential calibration needs, what the plan says about the recipe.
#pragma once

#include <string>
#include <vector>

#include "cortiq/model/forward.hpp"
#include "cortiq/pipeline/options.hpp"
#include "cortiq/pipeline/plan.hpp"

namespace cortiq::pipeline {

/// Needs of both streams and of one input's moments, instead of those of a one-shot run.
void set_sequential_needs(Plan& plan, const cmf::Source& source, const model::Forward& forward,
                          std::int64_t tokens);

/// Lines of the plan: effort and its parts; what sequential calibration means and costs.
[[nodiscard]] std::vector<std::string> recipe_lines(const GptqOptions& options);
/// Adds effort and sequential calibration to the effective options.
void add_recipe(cmf::Json& json, const GptqOptions& options);

}  // namespace cortiq::pipeline
