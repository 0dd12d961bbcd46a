// one_bit_sweep.hpp: the host's sweep of q1s and q1t (gptq.md section 8), with the feedback that
// section 3 defines: the whole residual of a column goes on by U, that of overlay places included.
#pragma once

#include "cortiq/gptq/sweep.hpp"

namespace cortiq::gptq {

/// As sweep_host for the targets q1s and q1t; options.order is natural or group. Without feedback,
/// or with a fold that is the identity, rows are rounded by channel energies.
[[nodiscard]] SweepResult sweep_one_bit(ConstMatrixView<float> w, ConstMatrixView<double> h_upper,
                                        const HostFactor& factor, const SweepOptions& options,
                                        Pool& pool, SweepTimes& times);

}  // namespace cortiq::gptq
