// kernels.hpp: choice of the kernel tables by instruction set.
#pragma once

#include "cortiq/support/cpu.hpp"
#include "decode_kernels.hpp"

namespace cortiq::codec {

[[nodiscard]] DecodeKernels decode_kernels(SimdLevel level) noexcept;

}  // namespace cortiq::codec
