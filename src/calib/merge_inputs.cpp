#include "merge_inputs.hpp"

#include <algorithm>
#include <cctype>
#include <iterator>
#include <limits>
#include <string_view>
#include <system_error>

#include "cortiq/calib/hessian_merge.hpp"
#include "cortiq/model/roles.hpp"
#include "cortiq/support/error.hpp"
#include "cortiq/support/file.hpp"

namespace cortiq::calib {
namespace fs = std::filesystem;
namespace {

std::int64_t first_layer(const HessianCache& cache) {
  std::int64_t first = std::numeric_limits<std::int64_t>::max();
  for (const CacheEntry& entry : cache.entries()) {
    for (const std::string& name : entry.names)
      first = std::min(first, model::layer_in_name(name).value_or(first));
  }
  return first;
}

/// First layer in the ending ".L{first}-{last}" of a file name; nullopt for another ending.
std::optional<std::int64_t> chunk_number(std::string_view ending) {
  constexpr std::size_t kMostDigits = 9;
  const auto digits = [&ending] {
    std::size_t count = 0;
    while (count < ending.size() && std::isdigit(static_cast<unsigned char>(ending[count])) != 0)
      ++count;
    const std::string_view number = ending.substr(0, count);
    ending.remove_prefix(count);
    return number;
  };
  if (!ending.starts_with(".L")) return std::nullopt;
  ending.remove_prefix(2);
  const std::string_view first = digits();
  if (first.empty() || first.size() > kMostDigits || !ending.starts_with("-")) return std::nullopt;
  ending.remove_prefix(1);
  if (digits().empty() || !ending.empty()) return std::nullopt;
  return std::stoll(std::string(first));
}

LayerList united(const LayerList& a, const LayerList& b) {
  if (a.whole() || b.whole()) return {};
  LayerList all{{}, std::max(a.count, b.count)};
  std::set_union(a.numbers.begin(), a.numbers.end(), b.numbers.begin(), b.numbers.end(),
                 std::back_inserter(all.numbers));
  if (static_cast<std::int64_t>(all.numbers.size()) == all.count) return {};
  return all;
}

/// Opens a file that was not opened before.
HessianCache open_once(const fs::path& path, std::vector<FileIdentity>& opened) {
  HessianCache cache = HessianCache::open(path);
  const auto file = file_identity(path);
  if (file && std::find(opened.begin(), opened.end(), *file) != opened.end())
    fail(ErrorKind::kUsage, "{}: is named twice, so its text would count twice; leave one out", path.string());
  if (file) opened.push_back(*file);
  (void)cache.sha256();  // damage would go into the sum
  return cache;
}

/// Puts the cache to the addend that it is a chunk of, or makes a new one of it.
void place(HessianCache cache, const fs::path& base, MergeInputs& inputs) {
  for (Addend& addend : inputs.addends) {
    if (!addend.same_windows(cache, base)) continue;
    std::string overlap = addend.overlap(cache);
    if (overlap.empty()) {
      addend.add(std::move(cache));
      return;
    }
    if (inputs.overlap.empty()) inputs.overlap = std::move(overlap);
  }
  inputs.addends.emplace_back(std::move(cache), base);
}

}  // namespace

Addend::Addend(HessianCache cache, fs::path base)
    : base_(std::move(base)), identity_(cache.identity()) {
  caches_.push_back(std::move(cache));
  index(0);
}

void Addend::index(std::size_t cache) {
  const auto& entries = caches_[cache].entries();
  for (std::size_t e = 0; e < entries.size(); ++e) {
    for (const std::string& name : entries[e].names) places_[name] = {cache, e};
  }
}

const CacheEntry& Addend::entry(Place place) const {
  return caches_[place.cache].entries()[place.entry];
}

bool Addend::same_windows(const HessianCache& cache, const fs::path& base) const {
  const auto other = cache.identity();
  if (!identity_ || !other) return !identity_ && !other && base == base_;
  return identity_differences(*identity_, *other).empty();
}

std::string Addend::overlap(const HessianCache& cache) const {
  for (const CacheEntry& entry : cache.entries()) {
    for (const std::string& tensor : entry.names) {
      const auto found = places_.find(tensor);
      if (found == places_.end()) continue;
      return fmt::format("{} and {} both hold {} of the same text, which would count twice",
                         caches_[found->second.cache].path().string(), cache.path().string(),
                         tensor);
    }
  }
  return {};
}

void Addend::add(HessianCache cache) {
  const auto other = cache.identity();
  if (identity_ && other) identity_->layers = united(identity_->layers, other->layers);
  caches_.push_back(std::move(cache));
  index(caches_.size() - 1);
}

void Addend::sort() {
  std::multimap<std::int64_t, HessianCache> keyed;
  for (HessianCache& cache : caches_) {
    const std::int64_t layer = first_layer(cache);
    keyed.emplace(layer, std::move(cache));
  }
  caches_.clear();
  places_.clear();
  for (auto& [layer, cache] : keyed) {
    caches_.push_back(std::move(cache));
    index(caches_.size() - 1);
  }
}

std::vector<fs::path> chunk_files(const fs::path& path) {
  std::error_code ignored;
  if (fs::exists(path, ignored)) return {path};
  const fs::path folder = path.has_parent_path() ? path.parent_path() : fs::path(".");
  const std::string base = path.filename().string();
  std::vector<std::pair<std::int64_t, fs::path>> found;
  for (const auto& entry : fs::directory_iterator(folder, ignored)) {
    const std::string file = entry.path().filename().string();
    if (!file.starts_with(base)) continue;
    const auto number = chunk_number(std::string_view(file).substr(base.size()));
    if (number) found.emplace_back(*number, path.string() + file.substr(base.size()));
  }
  if (found.empty()) return {path};  // opening it says what is wrong
  std::sort(found.begin(), found.end());
  std::vector<fs::path> files;
  for (auto& [number, file] : found) files.push_back(std::move(file));
  return files;
}

MergeInputs open_merge_inputs(const std::vector<fs::path>& inputs) {
  MergeInputs opened;
  std::vector<FileIdentity> files;
  bool expanded = false;
  for (const fs::path& input : inputs) {
    const std::vector<fs::path> chunks = chunk_files(input);
    expanded |= chunks.front() != input;
    for (const fs::path& chunk : chunks) place(open_once(chunk, files), input, opened);
  }
  if (files.size() < 2 && !expanded)
    fail(ErrorKind::kUsage, "merge: name at least two Hessian caches");
  for (Addend& addend : opened.addends) addend.sort();
  return opened;
}

}  // namespace cortiq::calib
