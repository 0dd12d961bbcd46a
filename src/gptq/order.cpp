#include <algorithm>
#include <numeric>
#include <span>

#include "cortiq/gptq/fold.hpp"
#include "kernels.hpp"

namespace cortiq::gptq {

namespace {

/// Sorts positions by descending key[channel]; equal keys keep the lower channel first.
void sort_descending(std::span<std::int64_t> channels, const std::vector<double>& key) {
  std::stable_sort(channels.begin(), channels.end(), [&key](std::int64_t a, std::int64_t b) {
    return key[static_cast<std::size_t>(a)] > key[static_cast<std::size_t>(b)];
  });
}

std::vector<std::int64_t> counting(std::int64_t count) {
  std::vector<std::int64_t> all(static_cast<std::size_t>(count));
  std::iota(all.begin(), all.end(), std::int64_t{0});
  return all;
}

std::vector<std::int64_t> group_order(const std::vector<double>& diagonal) {
  const auto n = static_cast<std::int64_t>(diagonal.size());
  std::vector<double> weight(static_cast<std::size_t>(n / kGroupCols), 0.0);
  for (std::int64_t i = 0; i < n; ++i) {
    weight[static_cast<std::size_t>(i / kGroupCols)] += diagonal[static_cast<std::size_t>(i)];
  }
  std::vector<std::int64_t> groups = counting(n / kGroupCols);
  sort_descending(groups, weight);
  std::vector<std::int64_t> channels;
  channels.reserve(static_cast<std::size_t>(n));
  for (const std::int64_t group : groups) {
    for (std::int64_t j = 0; j < kGroupCols; ++j) channels.push_back(group * kGroupCols + j);
    sort_descending(std::span(channels).last(kGroupCols), diagonal);
  }
  return channels;
}

}  // namespace

std::vector<std::int64_t> elimination_order(ConstMatrixView<double> h_upper, Order order) {
  const std::int64_t n = h_upper.rows();
  std::vector<double> diagonal(static_cast<std::size_t>(n));
  for (std::int64_t i = 0; i < n; ++i) {
    const double h = h_upper(i, i);
    // kAct compares in f32, as the existing tool does: channels that differ by less keep their
    // order.
    const double key = order == Order::kAct ? static_cast<double>(static_cast<float>(h)) : h;
    diagonal[static_cast<std::size_t>(i)] = h > 0 ? key : 0.0;
  }
  if (order == Order::kGroup && n % kGroupCols == 0) return group_order(diagonal);
  std::vector<std::int64_t> channels = counting(n);
  if (order == Order::kAct) sort_descending(channels, diagonal);
  return channels;
}

}  // namespace cortiq::gptq
