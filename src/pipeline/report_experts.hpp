// report_experts.hpp: how many calibration rows reached the routed experts.
#pragma once

#include <string>
#include <vector>

#include "cortiq/pipeline/report.hpp"

namespace cortiq::pipeline {

/// One line per layer that has experts: fewest and most rows, and who got a prior.
[[nodiscard]] std::vector<std::string> expert_lines(const RunReport& report);
/// Layer -> rows per expert, in the order of the experts; null for an expert that this run did not
/// calibrate. Empty for a model without experts.
[[nodiscard]] cmf::Json expert_json(const RunReport& report);

}  // namespace cortiq::pipeline
