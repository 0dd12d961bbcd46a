// sequential_memory.hpp: what sequential calibration holds in memory, stage by stage (docs/adr/0010-memory.md).
//
// Beside the program and the hidden states: f32 weights and scratch of one layer in both streams, and
// of one input after another first the moments, then the targets that they give, then the fold and
// sweep towards those. One Hessian at a time, so there is nothing that could lie on disk but hidden
// states.
#pragma once

#include <cstdint>

#include "cortiq/model/forward.hpp"
#include "cortiq/pipeline/plan.hpp"

namespace cortiq::pipeline {

/// Sets hidden_states, hidden_part, layer_weights, hessians and solve of the plan.
/// @returns the most bytes that one layer with one of its inputs takes beside the hidden states
[[nodiscard]] std::uint64_t set_sequential_needs(Plan& plan, const cmf::Source& source,
                                                 const model::Forward& forward,
                                                 std::int64_t tokens);

}  // namespace cortiq::pipeline
