// sensitivity.hpp: how much a layer's error matters at the end of the model.
#pragma once

#include <cstdint>
#include <functional>
#include <vector>

#include "cortiq/model/forward.hpp"
#include "cortiq/model/windows.hpp"

namespace cortiq::model {

/// Per layer: relative squared change of the head's input for each unit of relative squared error in what the layer adds
/// to the residual stream, measured with a small perturbation of fixed pattern. Where the model has more than `most_probes`
/// layers, evenly spread ones are probed and the rest interpolated (log-linear).
/// Cost: one forward of (1 + probes) times the windows, every layer's weights read once. on_layer(done) reports progress.
[[nodiscard]] std::vector<double> layer_sensitivity(const Forward& forward, const Windows& windows, std::int64_t most_probes,
                                                    const std::function<void(std::int64_t)>& on_layer = {});

}  // namespace cortiq::model
