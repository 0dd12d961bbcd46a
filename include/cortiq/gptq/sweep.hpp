// sweep.hpp: the host's sweep as a function, with the time of its parts.
#pragma once

#include "cortiq/gptq/backend.hpp"
#include "cortiq/gptq/fold.hpp"

namespace cortiq::gptq {

/// Wall-clock seconds of the parts of a sweep.
struct SweepTimes {
  double ladder_seconds = 0;   ///< placing the converter's ladders
  double sweep_seconds = 0;    ///< all passes: rung searches, rounding, updates
  double polish_seconds = 0;   ///< coordinate descent after the sweep
  double measure_seconds = 0;  ///< output error and energy, debias
};

/// What Backend::sweep of the host does. @param times  added to where not null.
[[nodiscard]] SweepResult sweep_host(ConstMatrixView<float> w, ConstMatrixView<double> h_upper,
                                     const HostFactor& factor, const SweepOptions& options,
                                     Pool& pool, SweepTimes* times = nullptr);

}  // namespace cortiq::gptq
