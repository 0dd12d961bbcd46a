#include <algorithm>
#include <cmath>

#include "factor.hpp"
#include "scaling.hpp"

namespace cortiq::device {

void set_damping(Scaling& scaling, ConstMatrixView<double> h_upper, double lambda) {
  const std::size_t n = scaling.elimination.size();
  scaling.lambda = lambda;
  scaling.damping = lambda * scaling.base;
  scaling.inverse.resize(n);
  scaling.diagonal.resize(n);
  double largest = 0;
  for (std::size_t i = 0; i < n; ++i) {
    const std::int64_t channel = scaling.elimination[i];
    const bool dead = scaling.facts.dead[static_cast<std::size_t>(channel)] != 0;
    const double h = dead ? 1.0 : h_upper(channel, channel);
    const double squared = (h + scaling.damping) / scaling.base;
    scaling.inverse[i] = static_cast<float>(1.0 / std::sqrt(squared));
    scaling.diagonal[i] = dead ? 0.0F : static_cast<float>(h / scaling.base);
    if (!dead) largest = std::max(largest, squared);
  }
  scaling.largest_ratio = lambda > 0 ? std::max(1.0, largest / lambda) : 0.0;
}

Scaling make_scaling(ConstMatrixView<double> h_upper, const gptq::FoldOptions& options) {
  Scaling scaling;
  scaling.facts = gptq::examine_channels(h_upper);
  scaling.elimination = gptq::elimination_order(h_upper, options.order);
  scaling.base = options.base ? *options.base : scaling.facts.base;
  set_damping(scaling, h_upper, std::max(options.lambda, 0.0));
  return scaling;
}

std::vector<std::uint32_t> marked_channels(const Scaling& scaling, bool reversed) {
  constexpr std::uint32_t kDeadBit = 0x80000000U;
  std::vector<std::uint32_t> channels;
  channels.reserve(scaling.elimination.size());
  for (const std::int64_t channel : scaling.elimination) {
    const bool dead = scaling.facts.dead[static_cast<std::size_t>(channel)] != 0;
    channels.push_back(static_cast<std::uint32_t>(channel) | (dead ? kDeadBit : 0U));
  }
  if (reversed) std::reverse(channels.begin(), channels.end());
  return channels;
}

}  // namespace cortiq::device
