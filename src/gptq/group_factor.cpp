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
  if (factor.identity) {  // plain rounding passes nothing on, whatever U is
    const std::array<double, kGroupCols> ones = [] {
      std::array<double, kGroupCols> values{};
      values.fill(1.0);
      return values;
    }();
    group.inverse = ones;
    store_normalized(ones, group.loss_weight);
  } else {
    fill_feedback(factor.u().block(first, first, kGroupCols, kGroupCols), group);
  }
  std::array<double, kGroupCols> diagonal_weight{};
  for (std::int64_t j = 0; j < kGroupCols; ++j) {
    const std::int64_t channel = factor.elimination[static_cast<std::size_t>(first + j)];
    diagonal_weight[static_cast<std::size_t>(j)] =
        static_cast<double>(diagonal[static_cast<std::size_t>(channel)]);
  }
  store_normalized(diagonal_weight, group.diagonal_weight);
}

}  // namespace

void fill_feedback(ConstMatrixView<double> u, GroupFactor& group) {
  std::array<double, kGroupCols> loss_weight{};
  for (std::int64_t j = 0; j < kGroupCols; ++j) {
    const auto sj = static_cast<std::size_t>(j);
    group.inverse[sj] = 1.0 / u(j, j);
    loss_weight[sj] = group.inverse[sj] * group.inverse[sj];
    for (std::int64_t k = j + 1; k < kGroupCols; ++k) {
      const auto at = static_cast<std::size_t>(j * kGroupCols + k);
      group.ratio[at] = u(j, k) * group.inverse[sj];
      group.ratio32[at] = static_cast<float>(group.ratio[at]);
    }
  }
  store_normalized(loss_weight, group.loss_weight);
}

std::vector<GroupFactor> make_group_factors(const HostFactor& factor,
                                            std::span<const float> diagonal, Pool& pool) {
  std::vector<GroupFactor> groups(static_cast<std::size_t>(factor.n() / kGroupCols));
  pool.for_each(static_cast<std::int64_t>(groups.size()), [&](std::int64_t g) {
    fill_group(factor, diagonal, g * kGroupCols, groups[static_cast<std::size_t>(g)]);
  });
  return groups;
}

}  // namespace cortiq::gptq
