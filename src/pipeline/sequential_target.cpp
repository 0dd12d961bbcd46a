#include "sequential_target.hpp"

#include <algorithm>
#include <cmath>

#include "cortiq/linalg/cholesky.hpp"
#include "cortiq/linalg/gemm.hpp"

namespace cortiq::pipeline {
namespace {

using linalg::Trans;

/// Rows of W that are corrected at a time: three f64 panels of this height.
constexpr std::int64_t kPanelRows = 1024;
/// Columns of one product with the triangular inverse, so that its zeros are left out.
constexpr std::int64_t kPanelCols = 256;
constexpr std::int64_t kGrainRows = 32;

}  // namespace

TargetSolver::TargetSolver(const calib::Hessian& hessian, double rho, Pool& pool)
    : n_(hessian.n()), pool_(pool), inverse_(make_page_buffer<double>(n_ * n_, PageSize::kHuge)) {
  const ConstMatrixView<double> h = hessian.view();
  const MatrixView<double> l(inverse_.get(), n_, n_);
  double trace = 0;
  for (std::int64_t i = 0; i < n_; ++i) trace += h(i, i);
  const double ridge = rho * trace / static_cast<double>(n_);
  pool.for_ranges(n_, kGrainRows, [&](std::int64_t begin, std::int64_t end) {
    for (std::int64_t r = begin; r < end; ++r) {
      for (std::int64_t c = 0; c < r; ++c) l(r, c) = h(c, r);
      l(r, r) = h(r, r) + ridge;
    }
  });
  if (linalg::cholesky_in_place(l, pool)) {
    inverse_.reset();
    return;
  }
  linalg::invert_lower_in_place(l, pool);
}

std::uint64_t TargetSolver::bytes(std::int64_t rows, std::int64_t n) {
  const std::int64_t panel = std::min(kPanelRows, rows);
  return static_cast<std::uint64_t>((n + 2 * panel) * n) * sizeof(double) +
         linalg::gemm_f64_scratch_bytes(panel, n);
}

void TargetSolver::apply_inverse(MatrixView<double> rows, MatrixView<double> half) const {
  const ConstMatrixView<double> inverse(inverse_.get(), n_, n_);
  const std::int64_t m = rows.rows();
  for (std::int64_t c = 0; c < n_; c += kPanelCols) {
    const std::int64_t width = std::min(kPanelCols, n_ - c);
    linalg::gemm_f64(Trans::kNo, Trans::kYes, 1.0, rows.block(0, 0, m, c + width),
                     inverse.block(c, 0, width, c + width), 0.0, half.block(0, c, m, width), pool_);
  }
  for (std::int64_t c = 0; c < n_; c += kPanelCols) {
    const std::int64_t width = std::min(kPanelCols, n_ - c);
    linalg::gemm_f64(Trans::kNo, Trans::kNo, 1.0, half.block(0, c, m, n_ - c),
                     inverse.block(c, c, n_ - c, width), 0.0, rows.block(0, c, m, width), pool_);
  }
}

DecodedTensor TargetSolver::correct(const DecodedTensor& w, const calib::CrossMoment& shift,
                                    const calib::CrossMoment* residual, double alpha) const {
  CORTIQ_ASSERT(usable() && w.cols == n_);
  const bool with_residual = residual != nullptr && !residual->is_zero();
  if (alpha == 0.0 || (shift.is_zero() && !with_residual)) return w;
  CORTIQ_ASSERT(!with_residual || residual->view().rows() == w.rows);
  DecodedTensor target = w;
  const auto panel = static_cast<std::size_t>(std::min(kPanelRows, w.rows) * n_);
  std::vector<double> first(panel);
  std::vector<double> second(panel);
  for (std::int64_t top = 0; top < w.rows; top += kPanelRows) {
    const std::int64_t m = std::min(kPanelRows, w.rows - top);
    const MatrixView<double> step(first.data(), m, n_);
    const MatrixView<double> other(second.data(), m, n_);
    const auto each_row = [&](const auto& fn) {
      pool_.for_ranges(m, kGrainRows, [&](std::int64_t begin, std::int64_t end) {
        for (std::int64_t r = begin; r < end; ++r) fn(r);
      });
    };
    each_row([&](std::int64_t r) {
      const float* from = w.view().row(top + r);
      std::transform(from, from + n_, other.row(r), [](float v) { return static_cast<double>(v); });
      if (with_residual) std::copy_n(residual->view().row(top + r), n_, step.row(r));
    });
    linalg::gemm_f64(Trans::kNo, Trans::kNo, 1.0, other, shift.view(), with_residual ? 1.0 : 0.0,
                     step, pool_);
    apply_inverse(step, other);
    each_row([&](std::int64_t r) {
      float* to = target.values.data() + (top + r) * n_;
      for (std::int64_t c = 0; c < n_; ++c) {
        to[c] = static_cast<float>(static_cast<double>(to[c]) + alpha * step(r, c));
        if (std::isfinite(to[c])) continue;
        fail(ErrorKind::kNumeric,
             "the target of sequential calibration is not finite at row {}, column {}; raise "
             "--seq-rho or use --no-sequential",
             top + r, c);
      }
    });
  }
  return target;
}

}  // namespace cortiq::pipeline
