// group_factor.hpp: what the sweep needs of U for the 32 columns of one group, in elimination
// order.
#pragma once

#include <array>
#include <span>
#include <vector>

#include "cortiq/gptq/fold.hpp"
#include "kernels.hpp"

namespace cortiq::gptq {

struct GroupFactor {
  std::array<double, kGroupCols * kGroupCols> ratio{};   ///< U_jk / U_jj, k > j
  std::array<float, kGroupCols * kGroupCols> ratio32{};  ///< the same for the search
  std::array<double, kGroupCols> inverse{};              ///< 1 / U_jj
  std::array<float, kGroupCols> loss_weight{};           ///< 1 / U_jj^2, times a power of two
  std::array<float, kGroupCols>
      diagonal_weight{};  ///< H_jj clipped to [0, max f32], times a power of two
};

/// Sets ratio, inverse and loss_weight from the 32 x 32 upper factor of a group.
void fill_feedback(ConstMatrixView<double> u, GroupFactor& group);

/// One entry per group of 32 positions. diagonal: f32 weights by channel.
[[nodiscard]] std::vector<GroupFactor> make_group_factors(const HostFactor& factor,
                                                          std::span<const float> diagonal,
                                                          Pool& pool);

}  // namespace cortiq::gptq
