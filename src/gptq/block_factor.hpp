// block_factor.hpp: the blocks of all groups (cortiq/gptq/group_block.hpp), ready for the kernels.
#pragma once

#include <array>
#include <vector>

#include "group_factor.hpp"

namespace cortiq::gptq {

struct BlockFactor {
  std::array<double, kGroupCols * kGroupCols> inverse{};  ///< H_gg^-1
  GroupFactor factor;                                     ///< of V; diagonal_weight is not used
  bool usable = false;
};

/// One entry per group of 32 positions. Needs factor.has_damped_h().
[[nodiscard]] std::vector<BlockFactor> make_block_factors(const HostFactor& factor, Pool& pool);

}  // namespace cortiq::gptq
