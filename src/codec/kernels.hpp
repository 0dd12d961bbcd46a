// kernels.hpp: choice of the kernel tables by instruction set.
#pragma once

#include "cortiq/support/cpu.hpp"
#include "decode_kernels.hpp"
#include "encode_kernels.hpp"

namespace cortiq::codec {

[[nodiscard]] DecodeKernels decode_kernels(SimdLevel level) noexcept;
[[nodiscard]] SearchKernels search_kernels(SimdLevel level) noexcept;
[[nodiscard]] PackKernels pack_kernels(SimdLevel level) noexcept;

}  // namespace cortiq::codec
