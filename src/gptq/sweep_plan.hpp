// sweep_plan.hpp: what is the same for every row of a tensor during its sweep.
#pragma once

#include <cstdint>
#include <vector>

#include "block_factor.hpp"
#include "cortiq/gptq/fold.hpp"
#include "group_factor.hpp"
#include "rung_choice.hpp"

namespace cortiq::gptq {

/// Columns whose feedback to the rest of the row is applied at once, by one matrix product.
inline constexpr std::int64_t kBlockCols = 128;
/// Rows that are worked on together: bounds the f64 copy of the weights. A multiple of kSlabRows.
inline constexpr std::int64_t kChunkRows = 1024;

struct SweepPlan {
  SweepPlan(const HostFactor& host_factor, ConstMatrixView<double> h,
            const SweepOptions& sweep_options, Pool& pool);

  const HostFactor& factor;
  ConstMatrixView<double> h_upper;
  SweepOptions options;
  std::int64_t cols;
  bool four_bit;
  bool fixed_rungs;  ///< act order: rungs come with the converter's ladder
  bool fit;          ///< two passes
  RungSearch search;
  bool zero_dead;              ///< dead channels are set to zero before anything else
  std::vector<float> weights;  ///< by channel: f32 H_ii in [0, max]; 1 where H says nothing
  std::vector<std::int64_t> position_of;  ///< channel -> elimination position
  std::vector<GroupFactor> groups;        ///< by elimination position
  bool polishes;                          ///< codes can move after the sweep
  std::vector<BlockFactor> blocks;        ///< by elimination position; empty without group moves
};

}  // namespace cortiq::gptq
