// sequential_plan.hpp: when a run calibrates sequentially, what the plan says about the recipe.
#pragma once

#include <string>
#include <vector>

#include "cortiq/pipeline/options.hpp"
#include "cortiq/pipeline/plan.hpp"

namespace cortiq::pipeline {

/// Lines of the plan: effort and its parts; what sequential calibration means and costs.
[[nodiscard]] std::vector<std::string> recipe_lines(const GptqOptions& options);
/// Adds effort and sequential calibration to the effective options.
void add_recipe(cmf::Json& json, const GptqOptions& options);

}  // namespace cortiq::pipeline
