// idle_options.hpp: options that were given and change nothing in this run of this model. (Those
// that could change nothing in any run are refused where options are read.)
#pragma once

#include <string>
#include <vector>

#include "cortiq/pipeline/plan.hpp"

namespace cortiq::pipeline {

/// What the plan does not say.
struct RunFacts {
  bool uses_device = false;
  bool unknown_cache = false;  ///< all Hessians come from caches that do not say what made them
};

/// One warning for each, in the order of `options.given`: "--min-rows: has no effect: …". A --skip is named
/// that releases the head or the embedding without making it a candidate.
[[nodiscard]] std::vector<std::string> idle_options(const GptqOptions& options, const Plan& plan,
                                                    const cmf::Source& source,
                                                    const RunFacts& facts);

}  // namespace cortiq::pipeline
