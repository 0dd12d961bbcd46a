#include <algorithm>
#include <cmath>
#include <limits>
#include <map>
#include <string>
#include <system_error>
#include <unordered_map>
#include <utility>

#include "cache_checks.hpp"
#include "cache_identity.hpp"
#include "cache_index.hpp"
#include "cache_layout.hpp"
#include "cortiq/calib/hessian_cache.hpp"
#include "cortiq/calib/sha256.hpp"
#include "cortiq/model/roles.hpp"
#include "cortiq/support/error.hpp"
#include "cortiq/support/file.hpp"
#include "read_file.hpp"

namespace cortiq::calib {
namespace {

constexpr std::uint64_t kMaxSidecarBytes = std::uint64_t{64} << 20;

std::span<std::byte> writable_bytes(std::span<double> values) {
  return std::as_writable_bytes(values);
}

void check_finite(const HessianCache& cache, const CacheEntry& entry,
                  std::span<const double> values, std::string_view what) {
  for (const double value : values) {
    if (std::isfinite(value)) continue;
    fail(ErrorKind::kNumeric, "{}: {}: {} holds {}; the cache is damaged, capture it again",
         cache.path().string(), entry_name(entry), what, value);
  }
}

void require_triangle(const HessianCache& cache, const CacheEntry& entry) {
  if (entry.has_triangle) return;
  fail(ErrorKind::kInput,
       "{}: {}: the cache holds sums of squares only, no Hessian; capture it again",
       cache.path().string(), entry_name(entry));
}

}  // namespace

struct HessianCache::State {
  explicit State(const std::filesystem::path& path) : file(path), index(read_cache_index(file)) {
    for (std::size_t i = 0; i < index.entries.size(); ++i) {
      for (const std::string& name : index.entries[i].names) by_name.emplace(name, i);
    }
  }
  ReadFile file;
  CacheIndex index;
  std::unordered_map<std::string, std::size_t> by_name;
};

HessianCache::HessianCache(std::unique_ptr<State> state) : state_(std::move(state)) {}
HessianCache::~HessianCache() = default;
HessianCache::HessianCache(HessianCache&&) noexcept = default;

HessianCache HessianCache::open(const std::filesystem::path& path) {
  return HessianCache(std::make_unique<State>(path));
}

const std::filesystem::path& HessianCache::path() const { return state_->file.path(); }
const std::vector<CacheEntry>& HessianCache::entries() const { return state_->index.entries; }

std::optional<std::size_t> HessianCache::find(std::string_view tensor, std::int64_t cols) const {
  const auto found = state_->by_name.find(std::string(tensor));
  if (found == state_->by_name.end()) return std::nullopt;
  const CacheEntry& entry = entries()[found->second];
  if (entry.count <= 0 || entry.cols != cols || !entry.has_triangle) return std::nullopt;
  return found->second;
}

std::vector<std::string> HessianCache::count_warnings() const {
  std::map<std::int64_t, std::vector<const CacheEntry*>> by_count;
  for (const CacheEntry& entry : entries()) {
    const bool routed = std::any_of(entry.names.begin(), entry.names.end(), [](const auto& name) {
      return model::expert_place(name).has_value();
    });
    if (!routed && !entry.names.empty()) by_count[entry.count].push_back(&entry);
  }
  if (by_count.size() < 2) return {};
  const auto usual = std::max_element(
      by_count.begin(), by_count.end(),
      [](const auto& a, const auto& b) { return a.second.size() < b.second.size(); });
  std::vector<std::string> warnings;
  for (const auto& [count, entries] : by_count) {
    if (count == usual->first) continue;
    warnings.push_back(fmt::format(
        "{}: {}{} counts {} rows, other inputs count {}; the cache is damaged or was put together "
        "from several runs",
        path().string(), entry_name(*entries.front()),
        entries.size() > 1 ? fmt::format(" and {} more", entries.size() - 1) : "", count,
        usual->first));
  }
  return warnings;
}

std::vector<double> HessianCache::read_sum_squares(std::size_t index) const {
  const CacheEntry& entry = entries().at(index);
  std::vector<double> sums(static_cast<std::size_t>(entry.cols));
  state_->file.read_exact(entry.payload_offset, writable_bytes(sums));
  check_finite(*this, entry, sums, "its sums of squares");
  return sums;
}

std::vector<double> HessianCache::read_diagonal(std::size_t index) const {
  const CacheEntry& entry = entries().at(index);
  if (!entry.has_triangle) return read_sum_squares(index);
  const auto cols = static_cast<std::uint64_t>(entry.cols);
  std::vector<double> diagonal(static_cast<std::size_t>(cols));
  for (std::uint64_t i = 0; i < cols; ++i) {
    const std::uint64_t offset = entry.payload_offset + layout::row_offset(cols, i);
    state_->file.read_exact(
        offset, writable_bytes(std::span(diagonal).subspan(static_cast<std::size_t>(i), 1)));
  }
  check_finite(*this, entry, diagonal, "the diagonal of its Hessian");
  return diagonal;
}

std::unique_ptr<Hessian> HessianCache::read(std::size_t index,
                                            std::vector<std::string>* warnings) const {
  const CacheEntry& entry = entries().at(index);
  require_triangle(*this, entry);
  auto hessian = std::make_unique<Hessian>(entry.cols);
  hessian->count = entry.count;
  hessian->sum_squares = read_sum_squares(index);
  const auto cols = static_cast<std::uint64_t>(entry.cols);
  const MatrixView<double> h = hessian->view();
  for (std::uint64_t i = 0; i < cols; ++i) {
    const auto row = static_cast<std::int64_t>(i);
    const std::span<double> values(h.row(row) + row, static_cast<std::size_t>(cols - i));
    state_->file.read_exact(entry.payload_offset + layout::row_offset(cols, i),
                            writable_bytes(values));
    check_finite(*this, entry, values, "its Hessian");
  }
  std::vector<std::string> oddities;
  with_context(path().string(), [&] { oddities = check_sums(entry, *hessian); });
  if (warnings != nullptr) {
    for (std::string& text : oddities) warnings->push_back(std::move(text));
  }
  return hessian;
}

void HessianCache::add_to(std::size_t index, Hessian& sum) const {
  const CacheEntry& entry = entries().at(index);
  CORTIQ_ASSERT(sum.n() == entry.cols);
  require_triangle(*this, entry);
  const auto cols = static_cast<std::uint64_t>(entry.cols);
  const MatrixView<double> h = sum.view();
  std::vector<double> row(static_cast<std::size_t>(cols));
  for (std::uint64_t i = 0; i < cols; ++i) {
    const std::span<double> values(row.data(), static_cast<std::size_t>(cols - i));
    state_->file.read_exact(entry.payload_offset + layout::row_offset(cols, i),
                            writable_bytes(values));
    check_finite(*this, entry, values, "its Hessian");
    double* to = h.row(static_cast<std::int64_t>(i)) + i;
    for (std::size_t j = 0; j < values.size(); ++j) to[j] += values[j];
  }
  const std::vector<double> squares = read_sum_squares(index);
  sum.sum_squares.resize(squares.size());
  for (std::size_t i = 0; i < squares.size(); ++i) sum.sum_squares[i] += squares[i];
  sum.count += std::min(entry.count, std::numeric_limits<std::int64_t>::max() - sum.count);
}

std::optional<CacheIdentity> HessianCache::identity() const {
  const std::filesystem::path sidecar = sidecar_path(path());
  std::error_code ignored;
  CacheFileFacts facts;
  if (!std::filesystem::exists(sidecar, ignored)) {
    if (state_->index.footer.empty()) return std::nullopt;
    return identity_from_json(state_->index.footer, path().string() + ": footer", facts);
  }
  const CacheIdentity identity =
      identity_from_json(read_text_file(sidecar, kMaxSidecarBytes), sidecar.string(), facts);
  if (facts.bytes != state_->file.size() || facts.entries != entries().size()) {
    fail(ErrorKind::kInput,
         "{}: describes a cache of {} bytes and {} entries, but {} has {} bytes and {} entries; "
         "one of them was replaced, so "
         "capture the cache again (or delete the .json to use the cache without its identity)",
         sidecar.string(), facts.bytes, facts.entries, path().string(), state_->file.size(),
         entries().size());
  }
  return identity;
}

std::string HessianCache::sha256() const {
  std::string computed = sha256_file(path());
  const std::filesystem::path sidecar = sidecar_path(path());
  std::error_code ignored;
  if (!std::filesystem::exists(sidecar, ignored)) return computed;
  CacheFileFacts facts;
  (void)identity_from_json(read_text_file(sidecar, kMaxSidecarBytes), sidecar.string(), facts);
  if (!facts.sha256.empty() && facts.sha256 != computed) {
    fail(ErrorKind::kInput,
         "{}: its sha256 is {}, and {} says {}; the cache was damaged or replaced since it was "
         "written, so capture it again (or delete the .json to use the cache without its identity)",
         path().string(), computed, sidecar.string(), facts.sha256);
  }
  return computed;
}

CacheEntryStats inspect_entry(const HessianCache& cache, std::size_t index, InspectDepth depth,
                              Pool& pool) {
  const CacheEntry& entry = cache.entries().at(index);
  CacheEntryStats stats;
  stats.names = entry.names;
  stats.cols = entry.cols;
  stats.count = entry.count;
  stats.has_triangle = entry.has_triangle;
  if (depth == InspectDepth::kFull && entry.has_triangle) {
    try {
      const std::unique_ptr<Hessian> hessian = cache.read(index, &stats.warnings);
      stats.condition = estimate_condition(*hessian, pool);
    } catch (const Error& error) {
      if (error.kind() != ErrorKind::kInput) throw;
      stats.warnings.emplace_back(error.what());  // damage is what an inspection is for
    }
  }
  const std::vector<double> diagonal = cache.read_diagonal(index);
  stats.health = diagonal_health(diagonal, entry.count);
  stats.channels = channel_lists(diagonal);
  return stats;
}

}  // namespace cortiq::calib
