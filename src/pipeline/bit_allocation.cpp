#include "bit_allocation.hpp"

#include <algorithm>
#include <cmath>
#include <limits>
#include <optional>

#include "cortiq/support/error.hpp"

namespace cortiq::pipeline {

namespace {

/// One step up the hull of a tensor.
struct Upgrade {
  std::size_t tensor = 0;
  std::size_t to = 0;
  std::uint64_t bytes = 0;  ///< more than before
  double gain = 0;          ///< loss saved
};

/// Options on the lower convex hull of (bytes, loss), from the smallest up.
std::vector<std::size_t> hull_of(const TensorOptions& tensor) {
  const auto slope = [&](std::size_t a, std::size_t b) {
    const CodecOption& from = tensor.options[a];
    const CodecOption& to = tensor.options[b];
    return (from.loss - to.loss) / static_cast<double>(to.bytes - from.bytes);
  };
  std::vector<std::size_t> hull{0};
  for (std::size_t i = 1; i < tensor.options.size(); ++i) {
    if (!(tensor.options[i].loss < tensor.options[hull.back()].loss)) continue;
    while (hull.size() > 1 && slope(hull[hull.size() - 2], hull.back()) <= slope(hull.back(), i))
      hull.pop_back();
    hull.push_back(i);
  }
  return hull;
}

std::vector<Upgrade> upgrades_of(const std::vector<TensorOptions>& tensors) {
  std::vector<Upgrade> upgrades;
  for (std::size_t t = 0; t < tensors.size(); ++t) {
    const std::vector<std::size_t> hull = hull_of(tensors[t]);
    for (std::size_t i = 1; i < hull.size(); ++i) {
      const CodecOption& from = tensors[t].options[hull[i - 1]];
      const CodecOption& to = tensors[t].options[hull[i]];
      upgrades.push_back({t, hull[i], to.bytes - from.bytes, from.loss - to.loss});
    }
  }
  std::stable_sort(upgrades.begin(), upgrades.end(), [](const Upgrade& a, const Upgrade& b) {
    return a.gain * static_cast<double>(b.bytes) > b.gain * static_cast<double>(a.bytes);
  });
  return upgrades;
}

}  // namespace

std::optional<Allocation> allocate(const std::vector<TensorOptions>& tensors, std::uint64_t budget) {
  Allocation allocation;
  allocation.chosen.assign(tensors.size(), 0);
  for (const TensorOptions& tensor : tensors) allocation.bytes += tensor.options.front().bytes;
  if (allocation.bytes > budget) return std::nullopt;
  std::vector<bool> closed(tensors.size(), false);  // a step did not fit: later ones build on it
  for (const Upgrade& upgrade : upgrades_of(tensors)) {
    if (closed[upgrade.tensor]) continue;
    if (allocation.bytes + upgrade.bytes > budget) {
      closed[upgrade.tensor] = true;
      continue;
    }
    allocation.bytes += upgrade.bytes;
    allocation.chosen[upgrade.tensor] = upgrade.to;
  }
  for (std::size_t t = 0; t < tensors.size(); ++t)
    allocation.loss += tensors[t].options[allocation.chosen[t]].loss;
  return allocation;
}

std::optional<Allocation> allocate_file(const std::vector<TensorOptions>& tensors, std::uint64_t wanted,
                                        const std::function<std::uint64_t(const Allocation&)>& file_bytes) {
  std::uint64_t fits = 0, above = 1;  // sums of bytes
  for (const TensorOptions& tensor : tensors) {
    fits += tensor.options.front().bytes;
    above += tensor.options.back().bytes;
  }
  std::optional<Allocation> best = allocate(tensors, fits);
  if (!best || file_bytes(*best) > wanted) return std::nullopt;
  while (above - fits > 1) {
    const std::uint64_t middle = fits + (above - fits) / 2;
    auto tried = allocate(tensors, middle);
    CORTIQ_ASSERT(tried.has_value());
    if (file_bytes(*tried) > wanted) {
      above = middle;
      continue;
    }
    fits = middle;
    if (tried->loss <= best->loss) best = std::move(tried);
  }
  return best;
}

}  // namespace cortiq::pipeline
