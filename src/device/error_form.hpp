// error_form.hpp: tr(E H E^T) of given errors on the device, for the report's comparison with rounding.
#pragma once

#include "factor.hpp"

namespace cortiq::device {

/// e [rows,n] f32 in natural order; undamped H. About 1e-3 relative (11 bits of each factor on cooperative matrices).
[[nodiscard]] double error_on_device(const Engine& engine, vulkan::Stream& stream, Pool& pool,
                                     const DeviceFactor& factor, ConstMatrixView<float> e);

}  // namespace cortiq::device
