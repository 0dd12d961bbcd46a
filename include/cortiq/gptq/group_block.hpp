// group_block.hpp: H_d of the 32 columns of one group alone, for moves of whole groups
// (docs/quality.md, "group moves"). With all other columns fixed the damped loss of a row is
// (x - q) H_gg (x - q)^T plus a constant, and with H_gg^-1 = V^T V rounding column by column with
// feedback through V leaves sum e^2 of it, as in the sweep.
#pragma once

#include <array>
#include <cstdint>

#include "cortiq/support/view.hpp"

namespace cortiq::gptq {

inline constexpr std::int64_t kBlockSide = 32;

struct GroupBlock {
  using Square = std::array<double, kBlockSide * kBlockSide>;  ///< row-major
  Square inverse{};     ///< H_gg^-1, symmetric
  Square upper{};       ///< V
  bool usable = false;  ///< H_gg factored; else the group stays as it is
};

/// @param h  [32, 32], both triangles
[[nodiscard]] GroupBlock make_group_block(ConstMatrixView<double> h);

}  // namespace cortiq::gptq
