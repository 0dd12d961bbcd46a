#include "group_factor.hpp"

#include <algorithm>
#include <cmath>

namespace cortiq::gptq {

namespace {

/// Scales by the power of two that brings the largest weight into [0.5, 1): ratios of losses are
/// kept exactly, and squares cannot overflow f32.
void store_normalized(std::span<const double, kGroupCols> weights,
                      std::span<float, kGroupCols> out) {
  const double largest = *std::max_element(weights.begin(), weights.end());
  int exponent = 0;
  if (largest > 0) std::frexp(largest, &exponent);
  std::transform(weights.begin(), weights.end(), out.begin(),
                 [exponent](double w) { return static_cast<float>(std::ldexp(w, -exponent)); });
}

void fill_group(const HostFactor& factor, std::span<const float> diagonal, std::int64_t first,
                GroupFactor& group) {
  const ConstMatrixView<double> u = factor.u();
  std::array<double, kGroupCols> loss_weight{};
  std::array<double, kGroupCols> diagonal_weight{};
  for (std::int64_t j = 0; j < kGroupCols; ++j) {
    const auto sj = static_cast<std::size_t>(j);
    const auto channel =
        static_cast<std::size_t>(factor.elimination[static_cast<std::size_t>(first + j)]);
    // Plain rounding (identity) passes nothing on, whatever U is.
    const double pivot = factor.identity ? 1.0 : u(first + j, first + j);
    group.inverse[sj] = 1.0 / pivot;
    loss_weight[sj] = group.inverse[sj] * group.inverse[sj];
    diagonal_weight[sj] = static_cast<double>(diagonal[channel]);
    for (std::int64_t k = j + 1; k < kGroupCols && !factor.identity; ++k) {
      const auto at = static_cast<std::size_t>(j * kGroupCols + k);
      group.ratio[at] = u(first + j, first + k) * group.inverse[sj];
      group.ratio32[at] = static_cast<float>(group.ratio[at]);
    }
  }
  store_normalized(loss_weight, group.loss_weight);
  store_normalized(diagonal_weight, group.diagonal_weight);
}

}  // namespace

std::vector<GroupFactor> make_group_factors(const HostFactor& factor,
                                            std::span<const float> diagonal, Pool& pool) {
  std::vector<GroupFactor> groups(static_cast<std::size_t>(factor.n() / kGroupCols));
  pool.for_each(static_cast<std::int64_t>(groups.size()), [&](std::int64_t g) {
    fill_group(factor, diagonal, g * kGroupCols, groups[static_cast<std::size_t>(g)]);
  });
  return groups;
}

}  // namespace cortiq::gptq
