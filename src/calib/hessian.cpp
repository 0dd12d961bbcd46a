#include "cortiq/calib/hessian.hpp"

#include <algorithm>
#include <cmath>
#include <limits>

#include "cortiq/linalg/gram.hpp"
#include "cortiq/support/error.hpp"

namespace cortiq::calib {
namespace {

/// Rows per task of the scan.
constexpr std::int64_t kScanRows = 64;
/// A channel counts as an outlier above this multiple of the median of the live ones.
constexpr double kOutlierFactor = 100;

bool all_finite(const double* values, std::int64_t count) {
  bool finite = true;
  for (std::int64_t i = 0; i < count; ++i) {
    finite &= std::fabs(values[i]) <= std::numeric_limits<double>::max();
  }
  return finite;
}

[[noreturn]] void fail_not_finite(const double* row, std::int64_t i, std::int64_t n) {
  std::int64_t j = i;
  while (j + 1 < n && std::isfinite(row[j])) ++j;
  fail(ErrorKind::kNumeric,
       "Hessian entry ({}, {}) is {}; the calibration run overflowed or its cache is damaged", i, j,
       row[j]);
}

}  // namespace

std::uint64_t resident_hessian_bytes(std::int64_t n) {
  constexpr std::uint64_t kPageBytes = 4096;
  std::uint64_t bytes = 0;
  const auto size = static_cast<std::uint64_t>(n);
  // Pages from the diagonal to the end of the row; those that two rows share count once.
  std::uint64_t end = 0;
  for (std::uint64_t i = 0; i < size; ++i) {
    const std::uint64_t first = (i * size + i) * sizeof(double) / kPageBytes;
    const std::uint64_t last = ((i + 1) * size * sizeof(double) - 1) / kPageBytes + 1;
    bytes += last - std::min(std::max(first, end), last);
    end = last;
  }
  return bytes * kPageBytes;
}

std::uint64_t capture_carry_bytes(std::int64_t n) {
  return static_cast<std::uint64_t>(linalg::kGramBlockTokens * n) * sizeof(float);
}

Hessian::Hessian(std::int64_t n) : n_(n) {
  CORTIQ_ASSERT(n >= 1 && n <= kMaxHessianCols);
  // Small pages: what lies below the diagonal is never written.
  try {
    values_ = make_page_buffer<double>(n * n, PageSize::kSmall);
  } catch (const std::bad_alloc&) {
    fail(ErrorKind::kOutOfMemory,
         "a Hessian of {} channels needs {} bytes, which the system refuses; close other programs or lower --mem-gb", n, hessian_bytes(n));
  }
}

HessianHealth diagonal_health(const std::vector<double>& diagonal, std::int64_t count) {
  HessianHealth health;
  health.rank_deficient = count < static_cast<std::int64_t>(diagonal.size());
  const ChannelLists lists = channel_lists(diagonal);
  health.dead_channels = static_cast<std::int64_t>(lists.dead.size());
  health.outlier_channels = static_cast<std::int64_t>(lists.outliers.size());
  if (lists.dead.size() == diagonal.size()) return health;
  double sum = 0;
  for (const double value : diagonal) sum += value > 0 ? value : 0;
  health.mean_diagonal = sum / static_cast<double>(diagonal.size() - lists.dead.size());
  return health;
}

ChannelLists channel_lists(const std::vector<double>& diagonal) {
  ChannelLists lists;
  std::vector<double> live;
  for (std::size_t i = 0; i < diagonal.size(); ++i) {
    if (diagonal[i] > 0) {
      live.push_back(diagonal[i]);
    } else {
      lists.dead.push_back(static_cast<std::int64_t>(i));
    }
  }
  if (live.empty()) return lists;
  // Upper median; an order statistic, so it does not depend on the order of the channels.
  const auto middle = live.begin() + static_cast<std::ptrdiff_t>(live.size() / 2);
  std::nth_element(live.begin(), middle, live.end());
  const double bound = kOutlierFactor * *middle;
  for (std::size_t i = 0; i < diagonal.size(); ++i) {
    if (diagonal[i] > bound) lists.outliers.push_back(static_cast<std::int64_t>(i));
  }
  return lists;
}

HessianHealth check_hessian(const Hessian& hessian, Pool& pool) {
  const ConstMatrixView<double> h = hessian.view();
  const std::int64_t n = hessian.n();
  pool.for_ranges(n, kScanRows, [&](std::int64_t begin, std::int64_t end) {
    for (std::int64_t i = begin; i < end; ++i) {
      if (!all_finite(h.row(i) + i, n - i)) fail_not_finite(h.row(i), i, n);
    }
  });
  std::vector<double> diagonal;
  for (std::int64_t i = 0; i < n; ++i) diagonal.push_back(h(i, i));
  return diagonal_health(diagonal, hessian.count);
}

}  // namespace cortiq::calib
