// hessian_files.hpp: the Hessian cache of a run: one file, or with --calib-chunk-layers K one for
// every K layers, PATH.L{first}-{last} (calibration.md section 5). A file that is there serves its
// layers; where a chunk has none the whole file PATH does; what neither has is captured and written
// chunk by chunk. The forward pass runs each layer once whatever the chunks are.
#pragma once

#include <cstdint>
#include <filesystem>
#include <optional>
#include <string>
#include <vector>

#include "cortiq/calib/hessian_cache.hpp"
#include "cortiq/pipeline/plan.hpp"

namespace cortiq::pipeline {

struct HessianFile {
  std::filesystem::path path;
  std::int64_t first = 0;  ///< layers
  std::int64_t last = 0;
  std::optional<std::size_t> cache;  ///< which open cache serves these layers
};

class HessianFiles {
 public:
  HessianFiles() = default;
  /// @param chunk_layers  0: one file for all   @param layers  of the model
  HessianFiles(const std::filesystem::path& path, std::int64_t chunk_layers, std::int64_t layers);

  /// Opens the files that are there. A file for which accept(cache) is false is not used.
  template <typename Accept>
  void open(Accept&& accept);
  [[nodiscard]] const std::vector<HessianFile>& files() const { return files_; }
  [[nodiscard]] const std::vector<calib::HessianCache>& caches() const { return caches_; }
  /// Which file holds a layer; the head belongs to the last layer's.
  [[nodiscard]] std::size_t file_of(std::int64_t layer) const;
  /// What the identity of a file says of its layers; nothing if the file holds all.
  [[nodiscard]] calib::LayerList layers_of(std::size_t file) const;
  /// Every layer is served by a cache; false without files.
  [[nodiscard]] bool serve_all() const;
  [[nodiscard]] bool serve_any() const { return !caches_.empty(); }

 private:
  [[nodiscard]] std::optional<std::size_t> try_open(const std::filesystem::path& path);

  std::filesystem::path path_;
  std::int64_t chunk_layers_ = 0;
  std::int64_t layers_ = 0;
  std::vector<HessianFile> files_;
  std::vector<calib::HessianCache> caches_;
};

template <typename Accept>
void HessianFiles::open(Accept&& accept) {
  std::optional<std::optional<std::size_t>> whole;
  const auto take = [&](const std::filesystem::path& path) {
    const auto cache = try_open(path);
    if (!cache || accept(caches_.back())) return cache;
    caches_.pop_back();
    return std::optional<std::size_t>();
  };
  for (HessianFile& file : files_) {
    file.cache = take(file.path);
    if (file.cache || file.path == path_) continue;
    if (!whole) whole = take(path_);
    file.cache = *whole;
  }
}

/// Layers of a model, by the names of its tensors.
[[nodiscard]] std::int64_t count_layers(const cmf::Source& source);

/// Groups of the candidates by the entries of the caches, which serve all layers.
void plan_groups_by_caches(Plan& plan, const cmf::Source& source, const HessianFiles& files);
/// Groups made by structure: those whose layers a cache serves get their entries. Candidates
/// without one are no longer grouped.
void assign_cache_entries(Plan& plan, const cmf::Source& source, const HessianFiles& files);

}  // namespace cortiq::pipeline
