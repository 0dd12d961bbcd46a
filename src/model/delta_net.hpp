// delta_net.hpp: linear attention by the gated delta rule (calibration.md section 4). The state
// starts at zero in every window.
#pragma once

#include <span>

#include "attention.hpp"
#include "cortiq/model/layer_weights.hpp"
#include "cortiq/support/parallel.hpp"
#include "cortiq/support/view.hpp"

namespace cortiq::model {

/// @param projected  [rows, delta_net.in_width()], products of in_proj qkv, z, a and b; overwritten
/// @param mixed      [rows, value_width], written
void delta_net(const Arch& arch, const DeltaWeights& weights, std::span<const WindowRows> windows,
               MatrixView<float> projected, MatrixView<float> mixed, Pool& pool);

}  // namespace cortiq::model
