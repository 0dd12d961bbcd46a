// hessian_merge.hpp: several Hessian caches of one model -> the cache of all their texts together
// (H, counts and sums of squares of different texts or parts are added; chunks, which hold different
// layers of the same windows, are put together). Two dense rows are held beside one Hessian, never a
// second matrix. Sums are taken in the order of the inputs: same bits for any number of threads.
#pragma once

#include <cstdint>
#include <filesystem>
#include <functional>
#include <optional>
#include <string>
#include <vector>

#include "cortiq/calib/hessian_cache.hpp"

namespace cortiq::calib {

/// What the sum of caches stands for, or why it stands for nothing that has a name.
struct MergedIdentity {
  std::optional<CacheIdentity> identity;
  std::string obstacle;  ///< empty if there is an identity; names the caches
};
/// All of one model, tokenizer, window and BOS. Parts of one run join (all of them: the run itself);
/// complete runs of different texts follow each other as sources. Obstacles: an unknown identity, a
/// part or a text that would count twice, an incomplete run beside another one.
/// @param names  of the caches, for the obstacle
[[nodiscard]] MergedIdentity merge_identities(
    const std::vector<std::optional<CacheIdentity>>& identities,
    const std::vector<std::string>& names);

struct MergeOptions {
  bool force = false;  ///< merge in spite of an obstacle; the result then has no identity
};
struct MergeResult {
  std::int64_t entries = 0;
  std::size_t caches = 0;  ///< files read
  std::optional<CacheIdentity> identity;
  std::vector<std::string> warnings;
};
/// The path itself; where there is no such file, its chunks PATH.L{first}-{last} by layers, if any.
[[nodiscard]] std::vector<std::filesystem::path> chunk_files(const std::filesystem::path& path);

/// Each input stands for chunk_files(input). Caches of equal identity without a common tensor are
/// chunks of one; in the order of their layers they give the bytes of the cache that a run without
/// chunks writes. A tensor in two files of equal identity is an obstacle to the identity. Layers that
/// no chunk holds are a warning, and the identity keeps the layers that are there.
/// Names that share an entry in every input share one in the output; the order is that of the first
/// input. A routed expert that an input lacks counts as unseen there; any other tensor that an input
/// lacks, an obstacle to the identity, and entries without triangle are refused.
/// Throws Error{kUsage} (fewer than two files and no chunks, one named twice), {kInput} (widths that
/// differ, no triangle), {kRefused} (obstacle, missing tensors) unless forced.
/// @param on_entry  called with (entries done, entries)
MergeResult merge_caches(const std::vector<std::filesystem::path>& inputs,
                         const std::filesystem::path& output, const MergeOptions& options,
                         const std::function<void(std::int64_t, std::int64_t)>& on_entry);

}  // namespace cortiq::calib
