// merge_inputs.hpp: the caches that a merge adds up. Caches of the same windows that hold different
// tensors (chunks by layers) make one addend; equal tensors of different addends are added.
#pragma once

#include <cstddef>
#include <filesystem>
#include <map>
#include <optional>
#include <string>
#include <utility>
#include <vector>

#include "cortiq/calib/hessian_cache.hpp"

namespace cortiq::calib {

/// A cache, or the chunks of one.
class Addend {
 public:
  struct Place {
    std::size_t cache = 0;
    std::size_t entry = 0;
    auto operator<=>(const Place&) const = default;
  };
  /// @param base  path that stood for the file among the inputs
  Addend(HessianCache cache, std::filesystem::path base);

  /// Equal identities; without any, a common base must say that files belong together.
  [[nodiscard]] bool same_windows(const HessianCache& cache, const std::filesystem::path& base) const;
  /// Empty, or which tensor both hold and where.
  [[nodiscard]] std::string overlap(const HessianCache& cache) const;
  void add(HessianCache cache);
  /// Caches in the order of their layers, as one file would hold them.
  void sort();

  [[nodiscard]] const std::vector<HessianCache>& caches() const { return caches_; }
  /// Of all its caches; its layers are theirs together.
  [[nodiscard]] const std::optional<CacheIdentity>& identity() const { return identity_; }
  /// Name -> where its sums are; valid after sort().
  [[nodiscard]] const std::map<std::string, Place>& places() const { return places_; }
  [[nodiscard]] const CacheEntry& entry(Place place) const;
  [[nodiscard]] std::string name() const { return caches_.front().path().string(); }

 private:
  void index(std::size_t cache);

  std::vector<HessianCache> caches_;
  std::filesystem::path base_;
  std::optional<CacheIdentity> identity_;
  std::map<std::string, Place> places_;
};

struct MergeInputs {
  std::vector<Addend> addends;  ///< in the order of the inputs
  std::string overlap;          ///< two files that hold the same tensor of the same windows, if any
};
/// Throws as merge_caches.
[[nodiscard]] MergeInputs open_merge_inputs(const std::vector<std::filesystem::path>& inputs);

}  // namespace cortiq::calib
