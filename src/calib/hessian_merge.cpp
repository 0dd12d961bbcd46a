#include "cortiq/calib/hessian_merge.hpp"

#include <algorithm>
#include <map>
#include <set>
#include <utility>

#include "cortiq/model/roles.hpp"
#include "cortiq/support/error.hpp"
#include "cortiq/support/file.hpp"

namespace cortiq::calib {
namespace {

using Caches = std::vector<HessianCache>;

/// One entry of the output: its names and the entry of each input that holds its sums.
struct Sum {
  std::vector<std::string> names;
  std::int64_t cols = 0;
  std::vector<std::optional<std::size_t>> from;  // per input
};

/// Of every name in the inputs, in the order of first appearance, the entries that hold it.
class Names {
 public:
  explicit Names(const Caches& caches) : inputs_(caches.size()) {
    for (std::size_t c = 0; c < caches.size(); ++c) {
      const auto& entries = caches[c].entries();
      for (std::size_t e = 0; e < entries.size(); ++e) {
        for (const std::string& name : entries[e].names) place_of(name)[c] = e;
      }
    }
  }
  [[nodiscard]] const std::vector<std::string>& order() const { return order_; }
  [[nodiscard]] const std::vector<std::optional<std::size_t>>& of(const std::string& name) const {
    return places_.at(name);
  }

 private:
  std::vector<std::optional<std::size_t>>& place_of(const std::string& name) {
    const auto [place, added] = places_.try_emplace(name, inputs_);
    if (added) order_.push_back(name);
    return place->second;
  }
  std::size_t inputs_;
  std::vector<std::string> order_;
  std::map<std::string, std::vector<std::optional<std::size_t>>> places_;
};

std::vector<Sum> plan_sums(const Caches& caches) {
  const Names names(caches);
  std::vector<Sum> sums;
  std::map<std::vector<std::optional<std::size_t>>, std::size_t> known;
  for (const std::string& name : names.order()) {
    const auto& from = names.of(name);
    const auto [place, added] = known.emplace(from, sums.size());
    if (added) sums.push_back({{}, 0, from});
    sums[place->second].names.push_back(name);
  }
  for (Sum& sum : sums) {
    for (std::size_t c = 0; c < caches.size(); ++c) {
      if (!sum.from[c]) continue;
      const std::int64_t cols = caches[c].entries()[*sum.from[c]].cols;
      if (sum.cols == 0) sum.cols = cols;
      if (cols == sum.cols) continue;
      fail(ErrorKind::kInput,
           "{}: tensor {} has {} channels there and {} in another of the caches; they belong to "
           "different models",
           caches[c].path().string(), sum.names.front(), cols, sum.cols);
    }
  }
  return sums;
}

/// A cache may lack an expert that no token reached, nothing else.
std::string missing_tensors(const Caches& caches, const std::vector<Sum>& sums) {
  constexpr std::size_t kShown = 5;
  for (std::size_t c = 0; c < caches.size(); ++c) {
    std::vector<std::string> missing;
    for (const Sum& sum : sums) {
      if (sum.from[c]) continue;
      std::copy_if(sum.names.begin(), sum.names.end(), std::back_inserter(missing),
                   [](const std::string& name) { return !model::expert_place(name); });
    }
    if (missing.empty()) continue;
    const std::size_t shown = std::min(missing.size(), kShown);
    const auto end = missing.begin() + static_cast<std::ptrdiff_t>(shown);
    return fmt::format("{}: lacks {} tensors that another of the caches has: {}{}",
                       caches[c].path().string(), missing.size(),
                       fmt::join(missing.begin(), end, ", "),
                       shown < missing.size() ? ", …" : "");
  }
  return {};
}

Caches open_all(const std::vector<std::filesystem::path>& inputs) {
  if (inputs.size() < 2) fail(ErrorKind::kUsage, "merge: name at least two Hessian caches");
  Caches caches;
  std::vector<FileIdentity> files;
  for (const auto& path : inputs) {
    caches.push_back(HessianCache::open(path));
    const auto file = file_identity(path);
    if (file && std::find(files.begin(), files.end(), *file) != files.end())
      fail(ErrorKind::kUsage, "{}: is named twice, so its text would count twice", path.string());
    if (file) files.push_back(*file);
  }
  return caches;
}

std::optional<CacheIdentity> identity_of(const Caches& caches, const MergeOptions& options,
                                         std::vector<std::string>& warnings) {
  std::vector<std::optional<CacheIdentity>> identities;
  std::vector<std::string> names;
  for (const HessianCache& cache : caches) {
    identities.push_back(cache.identity());
    names.push_back(cache.path().string());
  }
  MergedIdentity merged = merge_identities(identities, names);
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

}  // namespace

MergeResult merge_caches(const std::vector<std::filesystem::path>& inputs,
                         const std::filesystem::path& output, const MergeOptions& options,
                         const std::function<void(std::int64_t, std::int64_t)>& on_entry) {
  const Caches caches = open_all(inputs);
  MergeResult result;
  result.identity = identity_of(caches, options, result.warnings);
  const std::vector<Sum> sums = plan_sums(caches);
  if (std::string missing = missing_tensors(caches, sums); !missing.empty()) {
    if (!options.force) {
      fail(ErrorKind::kRefused,
           "{}. Capture it again, or merge them all the same with --force (what it lacks counts as "
           "zero)",
           missing);
    }
    result.warnings.push_back(missing + "; what it lacks counts as zero");
    result.identity.reset();
  }
  std::vector<model::InputGroup> sizes;
  for (const Sum& sum : sums) sizes.push_back({0, model::Role::kIn, -1, sum.cols, sum.names});
  HessianCacheWriter writer(output, sums.size());
  writer.reserve(cache_bytes(sizes));
  for (const Sum& sum : sums) {
    Hessian total(sum.cols);
    for (std::size_t c = 0; c < caches.size(); ++c) {
      if (sum.from[c]) caches[c].add_to(*sum.from[c], total);
    }
    writer.add(sum.names, total);
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
