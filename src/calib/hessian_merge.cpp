#include "cortiq/calib/hessian_merge.hpp"

#include <algorithm>
#include <iterator>
#include <map>
#include <memory>
#include <set>
#include <utility>

#include "cortiq/model/roles.hpp"
#include "cortiq/support/error.hpp"
#include "merge_inputs.hpp"

namespace cortiq::calib {
namespace {

using Addends = std::vector<Addend>;
using Places = std::vector<std::optional<Addend::Place>>;  // per addend

/// One entry of the output: its names and the entry of each addend that holds its sums.
struct Sum {
  std::vector<std::string> names;
  std::int64_t cols = 0;
  Places from;
};

/// Names of all addends in the order of first appearance.
std::vector<std::string> names_in_order(const Addends& addends) {
  std::vector<std::string> order;
  std::set<std::string> known;
  const auto take = [&](const std::string& name) {
    if (known.insert(name).second) order.push_back(name);
  };
  for (const Addend& addend : addends) {
    for (const HessianCache& cache : addend.caches()) {
      for (const CacheEntry& entry : cache.entries())
        std::for_each(entry.names.begin(), entry.names.end(), take);
    }
  }
  return order;
}

Places places_of(const std::string& name, const Addends& addends) {
  Places places(addends.size());
  for (std::size_t a = 0; a < addends.size(); ++a) {
    const auto found = addends[a].places().find(name);
    if (found != addends[a].places().end()) places[a] = found->second;
  }
  return places;
}

std::vector<Sum> plan_sums(const Addends& addends) {
  std::vector<Sum> sums;
  std::map<Places, std::size_t> known;
  for (const std::string& name : names_in_order(addends)) {
    const Places from = places_of(name, addends);
    const auto [place, added] = known.emplace(from, sums.size());
    if (added) sums.push_back({{}, 0, from});
    sums[place->second].names.push_back(name);
  }
  for (Sum& sum : sums) {
    for (std::size_t a = 0; a < addends.size(); ++a) {
      if (!sum.from[a]) continue;
      const std::int64_t cols = addends[a].entry(*sum.from[a]).cols;
      if (sum.cols == 0) sum.cols = cols;
      if (cols == sum.cols) continue;
      fail(ErrorKind::kInput,
           "{}: tensor {} has {} channels there and {} in another of the caches; they belong to "
           "different models",
           addends[a].caches()[sum.from[a]->cache].path().string(), sum.names.front(), cols,
           sum.cols);
    }
  }
  return sums;
}

std::unique_ptr<Hessian> total_of(const Sum& sum, const Addends& addends) {
  std::unique_ptr<Hessian> total;
  for (std::size_t a = 0; a < addends.size(); ++a) {
    if (!sum.from[a]) continue;
    const HessianCache& cache = addends[a].caches()[sum.from[a]->cache];
    if (total) {
      cache.add_to(sum.from[a]->entry, *total);
    } else {
      total = cache.read(sum.from[a]->entry);
    }
  }
  return total;
}

/// Two addends without a common tensor are chunks that do not belong together.
std::string foreign_chunks(const Addends& addends) {
  for (std::size_t a = 0; a < addends.size(); ++a) {
    for (std::size_t b = a + 1; b < addends.size(); ++b) {
      const auto& other = addends[b].places();
      const auto& places = addends[a].places();
      if (std::any_of(places.begin(), places.end(),
                      [&](const auto& place) { return other.count(place.first) > 0; }))
        continue;
      if (!addends[a].identity() || !addends[b].identity()) continue;
      return fmt::format("{} and {} hold different tensors and are of different runs: {}",
                         addends[a].name(), addends[b].name(),
                         fmt::join(identity_differences(*addends[a].identity(),
                                                        *addends[b].identity()),
                                   "; "));
    }
  }
  return {};
}

/// An addend may lack an expert that no token reached, nothing else.
std::string missing_tensors(const Addends& addends, const std::vector<Sum>& sums) {
  constexpr std::size_t kShown = 5;
  if (std::string foreign = foreign_chunks(addends); !foreign.empty()) return foreign;
  for (std::size_t a = 0; a < addends.size(); ++a) {
    std::vector<std::string> missing;
    for (const Sum& sum : sums) {
      if (sum.from[a]) continue;
      std::copy_if(sum.names.begin(), sum.names.end(), std::back_inserter(missing),
                   [](const std::string& name) { return !model::expert_place(name); });
    }
    if (missing.empty()) continue;
    const std::size_t shown = std::min(missing.size(), kShown);
    const auto end = missing.begin() + static_cast<std::ptrdiff_t>(shown);
    return fmt::format("{}: lacks {} tensors that another of the caches has: {}{}",
                       addends[a].name(), missing.size(), fmt::join(missing.begin(), end, ", "),
                       shown < missing.size() ? ", …" : "");
  }
  return {};
}

std::optional<CacheIdentity> identity_of(const MergeInputs& inputs, const MergeOptions& options,
                                         std::vector<std::string>& warnings) {
  std::vector<std::optional<CacheIdentity>> identities;
  std::vector<std::string> names;
  for (const Addend& addend : inputs.addends) {
    identities.push_back(addend.identity());
    names.push_back(addend.name());
  }
  MergedIdentity merged = merge_identities(identities, names);
  if (!inputs.overlap.empty()) merged = {std::nullopt, inputs.overlap};
  if (merged.obstacle.empty()) return merged.identity;
  if (!options.force) {
    fail(ErrorKind::kRefused,
         "{}. Merge caches of one model and of different texts or parts, or merge them all the "
         "same with --force",
         merged.obstacle);
  }
  warnings.push_back(merged.obstacle + "; the merged cache has no identity");
  return std::nullopt;
}

/// Chunks that were not named are not seen to be missing by anything else.
void warn_of_layers(const LayerList& layers, std::vector<std::string>& warnings) {
  if (layers.whole()) return;
  std::vector<std::int64_t> missing;
  for (std::int64_t layer = 0; layer < layers.count; ++layer) {
    if (!std::binary_search(layers.numbers.begin(), layers.numbers.end(), layer))
      missing.push_back(layer);
  }
  warnings.push_back(fmt::format(
      "no chunk holds layers {} of the model's {}; the merged cache serves the other layers only",
      fmt::join(missing, ", "), layers.count));
}

}  // namespace

MergeResult merge_caches(const std::vector<std::filesystem::path>& inputs,
                         const std::filesystem::path& output, const MergeOptions& options,
                         const std::function<void(std::int64_t, std::int64_t)>& on_entry) {
  const MergeInputs opened = open_merge_inputs(inputs);
  const Addends& addends = opened.addends;
  MergeResult result;
  result.identity = identity_of(opened, options, result.warnings);
  for (const Addend& addend : addends) result.caches += addend.caches().size();
  const std::vector<Sum> sums = plan_sums(addends);
  if (std::string missing = missing_tensors(addends, sums); !missing.empty()) {
    if (!options.force) {
      fail(ErrorKind::kRefused,
           "{}. Capture it again, or merge them all the same with --force (what it lacks counts as "
           "zero)",
           missing);
    }
    result.warnings.push_back(missing + "; what it lacks counts as zero");
    result.identity.reset();
  }
  if (result.identity) warn_of_layers(result.identity->layers, result.warnings);
  std::vector<model::InputGroup> sizes;
  for (const Sum& sum : sums) sizes.push_back({0, model::Role::kIn, -1, sum.cols, sum.names});
  HessianCacheWriter writer(output, sums.size());
  writer.reserve(cache_bytes(sizes));
  for (const Sum& sum : sums) {
    writer.add(sum.names, *total_of(sum, addends));
    on_entry(++result.entries, static_cast<std::int64_t>(sums.size()));
  }
  if (result.identity) {
    writer.commit(*result.identity);
  } else {
    writer.commit_without_identity();
  }
  return result;
}

}  // namespace cortiq::calib
