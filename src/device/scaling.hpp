// scaling.hpp: the host's part of the fold: order, dead channels, damped diagonal.
#pragma once

#include "factor.hpp"

namespace cortiq::device {

/// Facts of H and the damping options.lambda.
[[nodiscard]] Scaling make_scaling(ConstMatrixView<double> h_upper, const gptq::FoldOptions& options);
/// Changes the damping.
void set_damping(Scaling& scaling, ConstMatrixView<double> h_upper, double lambda);
/// Channel by position (of the reversed order), bit 31 set for dead ones: what the kernels read.
[[nodiscard]] std::vector<std::uint32_t> marked_channels(const Scaling& scaling, bool reversed);

}  // namespace cortiq::device
