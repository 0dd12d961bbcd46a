#include "cache_checks.hpp"

#include <algorithm>
#include <cmath>

#include "cortiq/support/error.hpp"

namespace cortiq::calib {
namespace {

/// Relative slack of |H_ij| <= sqrt(H_ii H_jj) and of sumsq against the diagonal: beyond it a
/// warning.
constexpr double kBoundSlack = 1e-3;
constexpr double kSumSquaresSlack = 1e-2;
/// From this multiple on it is damage ...
constexpr double kDamage = 2;
/// ... unless it is this small beside the largest diagonal entry: a channel whose squares underflow
/// may have products that do not.
constexpr double kNegligible = 1e-6;

[[noreturn]] void fail_entry(const CacheEntry& entry, const std::string& what) {
  fail(ErrorKind::kInput, "{}: {}; the cache is damaged, capture it again", entry_name(entry),
       what);
}

double largest_diagonal(const Hessian& hessian) {
  double most = 0;
  for (std::int64_t i = 0; i < hessian.n(); ++i)
    most = std::max(most, std::fabs(hessian.view()(i, i)));
  return most;
}

/// Number of entries above the bound that the diagonal gives.
std::int64_t count_above_bound(const CacheEntry& entry, const Hessian& hessian) {
  const std::int64_t n = hessian.n();
  const ConstMatrixView<double> h = hessian.view();
  std::vector<double> root;
  for (std::int64_t i = 0; i < n; ++i) root.push_back(std::sqrt(std::max(h(i, i), 0.0)));
  const double negligible = kNegligible * largest_diagonal(hessian);
  std::int64_t above = 0;
  for (std::int64_t i = 0; i < n; ++i) {
    const double scale = root[static_cast<std::size_t>(i)];
    const double* row = h.row(i);
    for (std::int64_t j = i + 1; j < n; ++j) {
      const double bound = scale * root[static_cast<std::size_t>(j)];
      const double value = std::fabs(row[j]);
      if (value <= bound * (1 + kBoundSlack)) continue;
      ++above;
      if (value <= kDamage * bound || value <= negligible) continue;
      fail_entry(entry, fmt::format("its Hessian holds {:g} at ({}, {}), where the diagonal ({:g}, "
                                    "{:g}) allows at most {:g}",
                                    row[j], i, j, h(i, i), h(j, j), bound));
    }
  }
  return above;
}

/// Number of sums of squares that are not the diagonal.
std::int64_t count_unequal(const CacheEntry& entry, const Hessian& hessian) {
  const double negligible = kNegligible * largest_diagonal(hessian);
  std::int64_t unequal = 0;
  for (std::int64_t i = 0; i < hessian.n(); ++i) {
    const double diagonal = hessian.view()(i, i);
    const double sum = hessian.sum_squares[static_cast<std::size_t>(i)];
    const double larger = std::max(std::fabs(sum), std::fabs(diagonal));
    const double difference = std::fabs(sum - diagonal);
    if (difference <= kSumSquaresSlack * larger) continue;
    ++unequal;
    if (difference <= larger / kDamage || larger <= negligible) continue;
    fail_entry(entry, fmt::format("its sum of squares {} is {:g}, its Hessian holds {:g} there", i,
                                  sum, diagonal));
  }
  return unequal;
}

}  // namespace

std::string entry_name(const CacheEntry& entry) {
  return entry.names.empty() ? "an entry without a name" : "tensor " + entry.names.front();
}

std::vector<std::string> check_sums(const CacheEntry& entry, const Hessian& hessian) {
  std::vector<std::string> found;
  const auto note = [&](std::string text) {
    found.push_back(entry_name(entry) + ": " + std::move(text));
  };
  const std::int64_t n = hessian.n();
  std::int64_t negative = 0;
  for (std::int64_t i = 0; i < n; ++i) negative += hessian.view()(i, i) < 0 ? 1 : 0;
  if (negative > 0) {
    note(fmt::format("{} of {} diagonal entries of its Hessian are negative; capture it again",
                     negative, n));
  }
  if (const std::int64_t above = count_above_bound(entry, hessian); above > 0) {
    note(fmt::format("{} entries of its Hessian are larger than the diagonal allows; it is no sum "
                     "of squares, capture it again",
                     above));
  }
  if (const std::int64_t unequal = count_unequal(entry, hessian); unequal > 0) {
    note(fmt::format("{} of {} sums of squares differ from the diagonal by more than 1 %; capture "
                     "it again",
                     unequal, n));
  }
  if (entry.count < entry.cols) {
    note(fmt::format(
        "its Hessian is of {} rows for {} channels, so it is singular; calibrate with more tokens",
        entry.count, entry.cols));
  }
  return found;
}

}  // namespace cortiq::calib
