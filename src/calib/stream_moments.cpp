#include "cortiq/calib/stream_moments.hpp"

#include <atomic>

#include "cortiq/linalg/gram.hpp"
#include "cortiq/support/error.hpp"

namespace cortiq::calib {
namespace {

constexpr std::int64_t kGrainRows = 32;

}  // namespace

CrossMoment::CrossMoment(std::int64_t m, std::int64_t n) : m_(m), n_(n) {
  try {
    values_ = make_page_buffer<double>(m * n, PageSize::kSmall);
  } catch (const std::bad_alloc&) {
    fail(ErrorKind::kOutOfMemory,
         "a cross moment of {} x {} channels needs {} bytes, which the system refuses", m, n,
         8 * m * n);
  }
}

void CrossMoment::add_difference(ConstMatrixView<float> a, ConstMatrixView<float> b,
                                 ConstMatrixView<float> right, Pool& pool) {
  CORTIQ_ASSERT(a.rows() == b.rows() && a.cols() == m_ && b.cols() == m_ && right.cols() == n_);
  difference_.resize(static_cast<std::size_t>(a.rows() * m_));
  const MatrixView<float> left(difference_.data(), a.rows(), m_);
  std::atomic<bool> any = false;
  pool.for_ranges(a.rows(), kGrainRows, [&](std::int64_t begin, std::int64_t end) {
    bool differs = false;
    for (std::int64_t r = begin; r < end; ++r) {
      const float* x = a.row(r);
      const float* y = b.row(r);
      float* out = left.row(r);
      for (std::int64_t c = 0; c < m_; ++c) {
        out[c] = x[c] - y[c];
        differs |= out[c] != 0.0F;
      }
    }
    if (differs) any = true;
  });
  if (!any) return;
  zero_ = false;
  linalg::cross_accumulate(left, right, {values_.get(), m_, n_}, pool);
}

void CrossMoment::add_scaled(const CrossMoment& from, double scale, Pool& pool) {
  CORTIQ_ASSERT(from.m_ == m_ && from.n_ == n_);
  if (from.zero_) return;
  zero_ = false;
  const MatrixView<double> to(values_.get(), m_, n_);
  pool.for_ranges(m_, kGrainRows, [&](std::int64_t begin, std::int64_t end) {
    for (std::int64_t r = begin; r < end; ++r) {
      for (std::int64_t c = 0; c < n_; ++c) to(r, c) += scale * from.view()(r, c);
    }
  });
}

StreamCapture::StreamCapture(const model::InputGroup& input, std::int64_t residual_width,
                             Pool& pool)
    : input_(input),
      pool_(pool),
      capture_({input}, pool),
      shift_(std::make_unique<CrossMoment>(input.width, input.width)),
      residual_(residual_width > 0 ? std::make_unique<CrossMoment>(residual_width, input.width)
                                   : nullptr) {}

void StreamCapture::add(ConstMatrixView<float> reference, ConstMatrixView<float> quantized) {
  if (quantized.rows() == 0) return;
  capture_.observe({input_.layer, input_.role, input_.expert, quantized});
  shift_->add_difference(reference, quantized, quantized, pool_);
}

void StreamCapture::add_residual(ConstMatrixView<float> reference, ConstMatrixView<float> stream,
                                 ConstMatrixView<float> quantized) {
  if (residual_) residual_->add_difference(reference, stream, quantized, pool_);
}

StreamMoments StreamCapture::take() {
  shift_->end_of_rows();
  if (residual_) residual_->end_of_rows();
  return {capture_.take(0), std::move(shift_), std::move(residual_)};
}

}  // namespace cortiq::calib
