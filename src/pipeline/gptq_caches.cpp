// The Hessian caches of a GPTQ run: which files are read, which are written, solving from them.
#include <algorithm>
#include <atomic>
#include <chrono>

#include "cortiq/support/file.hpp"
#include "gptq_run.hpp"

namespace cortiq::pipeline {
namespace {

using Clock = std::chrono::steady_clock;

double seconds_since(Clock::time_point start) {
  return std::chrono::duration<double>(Clock::now() - start).count();
}

/// One past the last group of a run of groups that hold experts of at most one layer: so many
/// priors are held at once.
std::size_t end_of_section(const std::vector<GroupPlan>& groups, std::size_t first) {
  std::optional<std::int64_t> layer;
  std::size_t end = first;
  for (; end < groups.size(); ++end) {
    const auto& place = groups[end].place;
    if (place && layer && *layer != place->layer) break;
    if (place) layer = place->layer;
  }
  return end;
}

}  // namespace

std::vector<GroupPlan> GptqRun::groups_of_file(std::size_t file) const {
  std::vector<GroupPlan> groups;
  std::copy_if(plan_.groups.begin(), plan_.groups.end(), std::back_inserter(groups),
               [&](const GroupPlan& group) { return files_.file_of(group.layer) == file; });
  return groups;
}

void GptqRun::open_caches() {
  if (!options_.hessians) return;
  files_ = HessianFiles(*options_.hessians, options_.chunk_layers, count_layers(*source_));
  // A continued run reads what the interrupted one has read, and not what that has written.
  const std::string before = left_ ? left_->fingerprint.value("hessians", "") : "";
  std::string used;
  files_.open([&](const calib::HessianCache& cache) {
    const std::string sha256 = cache.sha256();
    if (left_ && before.find(sha256) == std::string::npos) return false;
    check_cache_identity(cache);
    for (std::string& warning : cache.count_warnings()) add_warning(std::move(warning));
    used += (used.empty() ? "" : " ") + sha256;
    return true;
  });
  to_write_.assign(files_.files().size(), 0);
  for (std::size_t i = 0; i < to_write_.size(); ++i) {
    const HessianFile& file = files_.files()[i];
    to_write_[i] = !file.cache && !file_identity(file.path) ? 1 : 0;
  }
  if (used.empty()) return;
  report_.hessians = (files_.serve_all() ? "cache " : "captured, cache ") + used;
  if (files_.serve_all())
    context_.log.info("the Hessians come from {}; no forward pass is run",
                      files_.caches().size() == 1
                          ? files_.caches().front().path().string()
                          : fmt::format("{} cache files", files_.caches().size()));
}

void GptqRun::check_same_calibration() {
  const cmf::Source& runs_on = calib_source_ ? *calib_source_ : *source_;
  const auto wanted = cache_identity(*input_, model_identity(runs_on, context_.pool));
  for (const calib::HessianCache& cache : files_.caches()) {
    const auto cached = cache.identity();
    if (!cached) continue;  // said already
    const auto differences = calib::identity_differences(wanted, *cached);
    if (differences.empty() || options_.hessians_force) continue;
    fail(ErrorKind::kRefused,
         "{}: the other layers would be captured from another text: {}. Give the options of the "
         "run that wrote it, remove it to capture all layers anew, or use it all the same with "
         "--hessians-force",
         cache.path().string(), fmt::join(differences, "; "));
  }
}

void GptqRun::open_cache_writer(std::int64_t layer) {
  if (to_write_.empty() || cache_writer_) return;
  const std::size_t file = files_.file_of(layer);
  if (to_write_[file] == 0) return;
  const std::vector<GroupPlan> groups = groups_of_file(file);
  if (groups.empty()) return;
  const std::filesystem::path& path = files_.files()[file].path;
  if (model_hash_.empty())
    model_hash_ = model_identity(calib_source_ ? *calib_source_ : *source_, context_.pool);
  const bool continues = left_ && left_->cache_file == path.string();
  cache_writer_.emplace(calib::HessianCacheWriter::resumable(
      path, groups.size(), continues ? left_->cache : std::nullopt));
  cache_writer_->reserve(calib::cache_bytes(input_groups_of(groups)));
  writing_ = file;
}

void GptqRun::close_cache_writer(std::int64_t layer) {
  if (!cache_writer_ || cache_lacks(layer)) return;
  for (const GroupPlan& group : plan_.groups) {
    if (group.layer > layer && files_.file_of(group.layer) == writing_) return;
  }
  calib::CacheIdentity identity = cache_identity(*input_, model_hash_);
  identity.layers = files_.layers_of(writing_);
  cache_writer_->commit(identity);
  cache_writer_.reset();
  to_write_[writing_] = 0;
}

bool GptqRun::cache_lacks(std::int64_t layer) const {
  if (to_write_.empty() || to_write_[files_.file_of(layer)] == 0) return false;
  const std::size_t file = files_.file_of(layer);
  const auto through = std::count_if(
      plan_.groups.begin(), plan_.groups.end(), [&](const GroupPlan& group) {
        return group.layer <= layer && files_.file_of(group.layer) == file;
      });
  const std::uint64_t written =
      cache_writer_ && writing_ == file ? cache_writer_->entries() : 0;
  return written < static_cast<std::uint64_t>(through);
}

void GptqRun::solve_from_cache(TensorJob& job) {
  const auto& groups = plan_.groups;
  std::atomic<std::int64_t> done = 0;
  for (std::size_t first = 0; first < groups.size();) {
    const std::size_t last = end_of_section(groups, first);
    solve_cached(job,
                 {groups.begin() + static_cast<std::ptrdiff_t>(first),
                  groups.begin() + static_cast<std::ptrdiff_t>(last)},
                 [&] {
                   context_.log.progress("fold and sweep", ++done,
                                         static_cast<std::int64_t>(groups.size()), "groups");
                 });
    first = last;
  }
}

void GptqRun::solve_cached(TensorJob& job, const std::vector<GroupPlan>& groups,
                           const std::function<void()>& progress) {
  const auto start = Clock::now();
  const auto cache = [&](std::size_t i) -> const calib::HessianCache& {
    return files_.caches()[groups[i].cache];
  };
  const auto entry = [&](std::size_t i) { return groups[i].cache_entry.value(); };
  const bool finished = std::all_of(groups.begin(), groups.end(),
                                    [&](const GroupPlan& group) { return is_done(group); });
  if (!finished) {
    priors_.build(
        groups, 0, groups.size(), [&](std::size_t i) { return cache(i).entries()[entry(i)].count; },
        [&](std::size_t i) { return cache(i).read(entry(i)); }, context_.pool);
  }
  solve_batches(solve_needs(plan_, groups, *source_, false), [&](std::size_t i) {
    if (!is_done(groups[i])) {
      std::vector<std::string> oddities;
      const auto hessian = cache(i).read(entry(i), &oddities);
      for (std::string& oddity : oddities) add_warning(std::move(oddity));
      solve_one(job, groups[i], *hessian);
    }
    if (progress) progress();
  });
  time_phase("fold and sweep", seconds_since(start));
}

}  // namespace cortiq::pipeline
