// arch_tensors.hpp: presence and shapes of the tensors that the forward pass reads (cmf.md
// section 5.5).
#pragma once

#include "cortiq/model/arch.hpp"

namespace cortiq::model {

/// Checks every tensor against the numbers of `arch` and fills in what only tensors tell:
/// intermediate, qkv_bias, qk_norm, output_gate, sandwich_norms, the experts per layer and their
/// width. Throws Error{kInput} naming tensor and numbers,
/// Error{kUnsupported} for a tensor that would change the forward pass in a way that is not
/// implemented.
void check_tensors(const cmf::Source& source, Arch& arch);

}  // namespace cortiq::model
