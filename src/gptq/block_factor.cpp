#include "block_factor.hpp"

#include "cortiq/gptq/group_block.hpp"

namespace cortiq::gptq {

static_assert(kBlockSide == kGroupCols);

std::vector<BlockFactor> make_block_factors(const HostFactor& factor, Pool& pool) {
  CORTIQ_ASSERT(factor.has_damped_h());
  const ConstMatrixView<double> h = factor.damped_h();
  std::vector<BlockFactor> blocks(static_cast<std::size_t>(factor.n() / kBlockSide));
  pool.for_each(static_cast<std::int64_t>(blocks.size()), [&](std::int64_t g) {
    const GroupBlock block =
        make_group_block(h.block(g * kBlockSide, g * kBlockSide, kBlockSide, kBlockSide));
    BlockFactor& out = blocks[static_cast<std::size_t>(g)];
    out.usable = block.usable;
    if (!block.usable) return;
    out.inverse = block.inverse;
    fill_feedback({block.upper.data(), kBlockSide, kBlockSide}, out.factor);
  });
  return blocks;
}

}  // namespace cortiq::gptq
