#include <algorithm>
#include <cmath>
#include <limits>
#include <string>
#include <system_error>
#include <unordered_map>
#include <utility>

#include "cache_identity.hpp"
#include "cache_index.hpp"
#include "cache_layout.hpp"
#include "cortiq/calib/hessian_cache.hpp"
#include "cortiq/calib/sha256.hpp"
#include "cortiq/support/error.hpp"
#include "cortiq/support/file.hpp"
#include "read_file.hpp"

namespace cortiq::calib {
namespace {

/// hessian-cache.md section 5: relative slack of |H_ij| <= sqrt(H_ii H_jj) and of sumsq against the
/// diagonal.
constexpr double kBoundSlack = 1e-3;
constexpr double kSumSquaresSlack = 1e-2;

std::string entry_name(const CacheEntry& entry) {
  return entry.names.empty() ? "an entry without a name" : "tensor " + entry.names.front();
}

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

/// Number of entries above the bound that the diagonal gives.
std::int64_t count_above_bound(const Hessian& hessian) {
  const std::int64_t n = hessian.n();
  const ConstMatrixView<double> h = hessian.view();
  std::vector<double> root;
  for (std::int64_t i = 0; i < n; ++i) root.push_back(std::sqrt(std::max(h(i, i), 0.0)));
  std::int64_t above = 0;
  for (std::int64_t i = 0; i < n; ++i) {
    const double scale = root[static_cast<std::size_t>(i)] * (1 + kBoundSlack);
    const double* row = h.row(i);
    for (std::int64_t j = i + 1; j < n; ++j)
      above += std::fabs(row[j]) > scale * root[static_cast<std::size_t>(j)] ? 1 : 0;
  }
  return above;
}

std::vector<std::string> find_oddities(const CacheEntry& entry, const Hessian& hessian) {
  std::vector<std::string> found;
  const auto note = [&](std::string text) {
    found.push_back(entry_name(entry) + ": " + std::move(text));
  };
  const std::int64_t n = hessian.n();
  std::int64_t negative = 0;
  std::int64_t unequal = 0;
  for (std::int64_t i = 0; i < n; ++i) {
    const double diagonal = hessian.view()(i, i);
    const double sum = hessian.sum_squares[static_cast<std::size_t>(i)];
    if (diagonal < 0) ++negative;
    if (std::fabs(sum - diagonal) >
        kSumSquaresSlack * std::max(std::fabs(sum), std::fabs(diagonal)))
      ++unequal;
  }
  if (negative > 0)
    note(fmt::format("{} of {} diagonal entries of its Hessian are negative", negative, n));
  if (const std::int64_t above = count_above_bound(hessian); above > 0) {
    note(fmt::format(
        "{} entries of its Hessian are larger than the diagonal allows; it is no sum of squares",
        above));
  }
  if (unequal > 0)
    note(fmt::format("{} of {} sums of squares differ from the diagonal by more than 1 %", unequal,
                     n));
  if (entry.count < entry.cols) {
    note(fmt::format(
        "its Hessian is of {} rows for {} channels, so it is singular; calibrate with more tokens",
        entry.count, entry.cols));
  }
  return found;
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
  if (warnings != nullptr) {
    for (std::string& text : find_oddities(entry, *hessian)) warnings->push_back(std::move(text));
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
  constexpr std::uint64_t kMaxSidecarBytes = std::uint64_t{64} << 20;
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

std::string HessianCache::sha256() const { return sha256_file(path()); }

CacheEntryStats inspect_entry(const HessianCache& cache, std::size_t index, InspectDepth depth,
                              Pool& pool) {
  const CacheEntry& entry = cache.entries().at(index);
  CacheEntryStats stats;
  stats.names = entry.names;
  stats.cols = entry.cols;
  stats.count = entry.count;
  stats.has_triangle = entry.has_triangle;
  if (depth == InspectDepth::kFull && entry.has_triangle) {
    const std::unique_ptr<Hessian> hessian = cache.read(index, &stats.warnings);
    stats.condition = estimate_condition(*hessian, pool);
  }
  const std::vector<double> diagonal = cache.read_diagonal(index);
  stats.health = diagonal_health(diagonal, entry.count);
  stats.channels = channel_lists(diagonal);
  return stats;
}

}  // namespace cortiq::calib
