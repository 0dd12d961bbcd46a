#include "sweep_plan.hpp"

#include <algorithm>
#include <limits>

namespace cortiq::gptq {

namespace {

RungSearch search_of(const SweepOptions& options) {
  if (options.rung == Rung::kSim) return RungSearch::kSimulated;
  if (options.rung == Rung::kAll) return RungSearch::kSimulatedFull;
  const bool full = options.target == Target::kQ2tp && options.rule == Q2tpRule::kPlaced;
  return full ? RungSearch::kFull : RungSearch::kWindow;
}

std::vector<float> diagonal_weights(const HostFactor& factor, ConstMatrixView<double> h) {
  std::vector<float> weights(static_cast<std::size_t>(factor.n()), 1.0F);
  if (factor.mostly_dead) return weights;
  const auto largest = static_cast<double>(std::numeric_limits<float>::max());
  for (std::size_t i = 0; i < weights.size(); ++i) {
    const double value = h(static_cast<std::int64_t>(i), static_cast<std::int64_t>(i));
    weights[i] = value > 0 ? static_cast<float>(std::min(value, largest)) : 0.0F;
  }
  return weights;
}

std::vector<std::int64_t> inverse_of(const std::vector<std::int64_t>& order) {
  std::vector<std::int64_t> inverse(order.size());
  for (std::size_t a = 0; a < order.size(); ++a)
    inverse[static_cast<std::size_t>(order[a])] = static_cast<std::int64_t>(a);
  return inverse;
}

}  // namespace

SweepPlan::SweepPlan(const HostFactor& host_factor, ConstMatrixView<double> h,
                     const SweepOptions& sweep_options, Pool& pool)
    : factor(host_factor),
      h_upper(h),
      options(sweep_options),
      cols(host_factor.n()),
      four_bit(sweep_options.target == Target::kQ4tp),
      fixed_rungs(sweep_options.order == Order::kAct),
      fit(sweep_options.ladder == LadderFit::kFit && !fixed_rungs),
      search(search_of(sweep_options)),
      zero_dead(host_factor.dead_channels > 0 && !host_factor.mostly_dead),
      weights(diagonal_weights(host_factor, h)),
      position_of(inverse_of(host_factor.elimination)),
      groups(make_group_factors(host_factor, weights, pool)),
      polishes(sweep_options.polish > 0 && !host_factor.identity && !fixed_rungs),
      blocks(polishes && sweep_options.group_moves ? make_block_factors(host_factor, pool)
                                                   : std::vector<BlockFactor>()) {}

}  // namespace cortiq::gptq
