// What the plan of a GPTQ run is compared with before the work: free space, options without effect.
#include <algorithm>
#include <map>

#include "gptq_run.hpp"
#include "idle_options.hpp"

namespace cortiq::pipeline {

std::vector<DiskItem> GptqRun::disk_items() const {
  std::vector<DiskItem> items{{"output", output_, plan_.output_bytes}};
  for (std::size_t file = 0; file < to_write_.size(); ++file) {
    if (to_write_[file] == 0) continue;
    const std::vector<GroupPlan> groups = groups_of_file(file);
    if (groups.empty()) continue;
    items.push_back({"Hessian cache", files_.files()[file].path,
                     calib::cache_bytes(input_groups_of(groups))});
  }
  if (!forward_) return items;
  if (plan_.memory.spill_hidden)
    items.push_back({"hidden states", spill_folder() / "hidden-states", plan_.memory.hidden_states});
  if (plan_.memory.hessian_limit > 0) {
    // One layer's at a time.
    std::map<std::int64_t, std::uint64_t> layers;
    for (const GroupPlan& group : plan_.groups)
      layers[group.layer] += calib::spilled_hessian_bytes(group.width);
    std::uint64_t most = 0;
    for (const auto& [layer, bytes] : layers) most = std::max(most, bytes);
    items.push_back({"Hessians of a layer", spill_folder() / "hessians", most});
  }
  return items;
}

void GptqRun::warn_idle_options() {
  const bool unknown_cache =
      files_.serve_all() &&
      std::all_of(files_.caches().begin(), files_.caches().end(),
                  [](const calib::HessianCache& cache) { return !cache.identity(); });
  for (std::string& warning :
       idle_options(options_, plan_, *source_, {backend_.uses_device(), unknown_cache}))
    add_warning(std::move(warning));
}

}  // namespace cortiq::pipeline
