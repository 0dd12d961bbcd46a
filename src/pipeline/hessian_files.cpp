#include "hessian_files.hpp"

#include <algorithm>
#include <functional>
#include <limits>
#include <map>

#include "cortiq/support/file.hpp"

namespace cortiq::pipeline {
namespace fs = std::filesystem;
namespace {

/// The entry of an expert that no row reached, which serves nothing but a prior.
std::optional<std::size_t> expert_entry(const calib::HessianCache& cache,
                                        const cmf::TensorInfo& info) {
  if (!model::expert_place(info.name)) return std::nullopt;
  const auto& entries = cache.entries();
  for (std::size_t i = 0; i < entries.size(); ++i) {
    const auto& names = entries[i].names;
    if (entries[i].has_triangle && entries[i].cols == info.shape[1] &&
        std::find(names.begin(), names.end(), info.name) != names.end())
      return i;
  }
  return std::nullopt;
}

std::optional<std::size_t> entry_for(const calib::HessianCache& cache,
                                     const cmf::TensorInfo& info) {
  const auto entry = cache.find(info.name, info.shape[1]);
  return entry ? entry : expert_entry(cache, info);
}

/// @param which  the cache that serves a tensor of this name
void plan_groups(Plan& plan, const cmf::Source& source,
                 const std::vector<const calib::HessianCache*>& caches,
                 const std::function<std::size_t(const std::string&)>& which) {
  std::map<std::pair<std::size_t, std::size_t>, std::size_t> group_of_entry;
  for (std::size_t i = 0; i < plan.choices.size(); ++i) {
    if (plan.choices[i].action != Action::kGptq) continue;
    const cmf::TensorInfo& info = source.tensors()[i];
    const std::size_t cache = which(info.name);
    const auto entry = entry_for(*caches[cache], info);
    if (!entry) {
      plan.ungrouped.push_back(i);
      continue;
    }
    const auto [position, fresh] =
        group_of_entry.try_emplace({cache, *entry}, plan.groups.size());
    if (fresh) {
      GroupPlan group;
      group.width = info.shape[1];
      group.readers = caches[cache]->entries()[*entry].names;
      group.cache = cache;
      group.cache_entry = *entry;
      group.place = model::expert_place(info.name);
      plan.groups.push_back(std::move(group));
    }
    plan.groups[position->second].tensors.push_back(i);
  }
}

}  // namespace

HessianFiles::HessianFiles(const fs::path& path, std::int64_t chunk_layers, std::int64_t layers)
    : path_(path), chunk_layers_(chunk_layers), layers_(layers) {
  if (chunk_layers == 0) {
    files_.push_back({path, 0, std::max<std::int64_t>(layers - 1, 0), {}});
    return;
  }
  for (std::int64_t first = 0; first < layers; first += chunk_layers) {
    const std::int64_t last = first + chunk_layers - 1;
    files_.push_back({path.string() + fmt::format(".L{}-{}", first, last), first, last, {}});
  }
}

std::size_t HessianFiles::file_of(std::int64_t layer) const {
  if (chunk_layers_ == 0) return 0;
  return static_cast<std::size_t>(std::min(layer, layers_ - 1) / chunk_layers_);
}

calib::LayerList HessianFiles::layers_of(std::size_t file) const {
  if (chunk_layers_ == 0) return {};
  calib::LayerList layers{{}, layers_};
  for (std::int64_t layer = files_[file].first; layer <= std::min(files_[file].last, layers_ - 1);
       ++layer)
    layers.numbers.push_back(layer);
  if (layers.numbers.size() == static_cast<std::size_t>(layers_)) return {};
  return layers;
}

bool HessianFiles::serve_all() const {
  return !files_.empty() && std::all_of(files_.begin(), files_.end(), [](const HessianFile& file) {
    return file.cache.has_value();
  });
}

std::optional<std::size_t> HessianFiles::try_open(const fs::path& path) {
  if (!file_identity(path)) return std::nullopt;
  caches_.push_back(calib::HessianCache::open(path));
  return caches_.size() - 1;
}

std::int64_t count_layers(const cmf::Source& source) {
  std::int64_t layers = 0;
  for (const cmf::TensorInfo& info : source.tensors())
    layers = std::max(layers, model::layer_in_name(info.name).value_or(-1) + 1);
  return layers;
}

void plan_groups_by_cache(Plan& plan, const cmf::Source& source, const calib::HessianCache& cache) {
  plan_groups(plan, source, {&cache}, [](const std::string&) { return std::size_t{0}; });
}

void plan_groups_by_caches(Plan& plan, const cmf::Source& source, const HessianFiles& files) {
  std::vector<const calib::HessianCache*> caches;
  for (const calib::HessianCache& cache : files.caches()) caches.push_back(&cache);
  plan_groups(plan, source, caches, [&](const std::string& name) {
    constexpr auto kBehindTheLayers = std::numeric_limits<std::int64_t>::max();
    return files.files()[files.file_of(model::layer_in_name(name).value_or(kBehindTheLayers))]
        .cache.value();
  });
}

void assign_cache_entries(Plan& plan, const cmf::Source& source, const HessianFiles& files) {
  std::vector<GroupPlan> kept;
  for (GroupPlan& group : plan.groups) {
    const auto cache = files.files()[files.file_of(group.layer)].cache;
    if (cache) {
      group.cache = *cache;
      group.cache_entry =
          entry_for(files.caches()[*cache], source.tensors()[group.tensors.front()]);
    }
    if (cache && !group.cache_entry) {
      plan.ungrouped.insert(plan.ungrouped.end(), group.tensors.begin(), group.tensors.end());
    } else {
      kept.push_back(std::move(group));
    }
  }
  std::sort(plan.ungrouped.begin(), plan.ungrouped.end());
  plan.groups = std::move(kept);
}

}  // namespace cortiq::pipeline
