// memory_plan.hpp: one accounting of what a run holds in memory, for the plan and for its limits at
// run time (calibration.md section 6; docs/adr/0010-memory.md).
//
// A one-shot run holds, besides what the process has when it is planned: hidden states of all
// windows; then, layer by layer, first the layer's f32 weights, panels and growing Hessians, after
// that its Hessians, folds and sweeps. What does not fit goes to disk, hidden states first.
#pragma once

#include <cstdint>
#include <vector>

#include "cortiq/pipeline/plan.hpp"

namespace cortiq::pipeline {

/// Bytes that a group takes while it is folded and swept, its Hessian not included.
/// @param threads  members of a group are swept at the same time
[[nodiscard]] std::uint64_t solve_bytes(const Plan& plan, const GroupPlan& group,
                                        const cmf::Source& source, int threads);
/// What the products of the forward pass and of the Hessians pack.
[[nodiscard]] std::uint64_t forward_scratch_bytes(const Plan& plan);
/// Bytes of the Hessian itself.
[[nodiscard]] std::uint64_t group_hessian_bytes(const GroupPlan& group);

/// The sums over all experts among the groups that serve as priors, one for each of their inputs.
/// @param bytes_of  what is summed for a group
[[nodiscard]] std::uint64_t prior_bytes(const std::vector<const GroupPlan*>& groups,
                                        std::uint64_t (*bytes_of)(const GroupPlan&));

/// What the groups of one section may take together, and each of them, at run time.
struct SolveNeeds {
  std::vector<std::uint64_t> groups;
  std::uint64_t limit = 0;
};
/// @param resident  the Hessians of these groups are in memory already
[[nodiscard]] SolveNeeds solve_needs(const Plan& plan, const std::vector<GroupPlan>& groups,
                                     const cmf::Source& source, bool resident);

}  // namespace cortiq::pipeline
