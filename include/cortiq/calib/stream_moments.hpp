// stream_moments.hpp: second moments of one input in two streams of the same tokens, the reference
// model's x [rows, n] and the quantized model's q [rows, n] (docs/quality.md section 5).
//   H = sum q q^T              [n, n]  as Capture sums it, bit for bit
//   shift = sum (x - q) q^T    [n, n]  what the text calls C - H; summed as a difference, so that
//                                      equal streams give exactly zero and nothing cancels
//   residual = sum (r - s) q^T [m, n]  D: r, s [rows, m] are the residual streams of both models
// Products of up to 256 rows are f32, their sums f64. Same bits for every Pool size.
#pragma once

#include <cstdint>
#include <memory>
#include <vector>

#include "cortiq/calib/hessian.hpp"
#include "cortiq/model/roles.hpp"
#include "cortiq/support/page_buffer.hpp"
#include "cortiq/support/parallel.hpp"
#include "cortiq/support/view.hpp"

namespace cortiq::calib {

/// Sum of left^T right, [m, n] f64, zero at first.
class CrossMoment {
 public:
  CrossMoment(std::int64_t m, std::int64_t n);
  /// Adds (a - b)^T right; nothing where a and b are equal. a, b [rows, m], right [rows, n].
  void add_difference(ConstMatrixView<float> a, ConstMatrixView<float> b,
                      ConstMatrixView<float> right, Pool& pool);
  /// Gives back what add_difference works with.
  void end_of_rows() { difference_ = {}; }
  /// this += scale * from.
  void add_scaled(const CrossMoment& from, double scale, Pool& pool);
  [[nodiscard]] ConstMatrixView<double> view() const { return {values_.get(), m_, n_}; }
  /// Nothing but zero was added.
  [[nodiscard]] bool is_zero() const { return zero_; }

 private:
  std::int64_t m_;
  std::int64_t n_;
  PageBuffer<double> values_;
  std::vector<float> difference_;
  bool zero_ = true;
};

struct StreamMoments {
  std::unique_ptr<Hessian> hessian;
  std::unique_ptr<CrossMoment> shift;
  std::unique_ptr<CrossMoment> residual;  ///< null where nothing is to be summed
};

class StreamCapture {
 public:
  /// @param residual_width  m, or 0 for no residual
  StreamCapture(const model::InputGroup& input, std::int64_t residual_width, Pool& pool);
  /// The same rows in both streams, in order. A NaN or infinity: Error{kNumeric} naming the input.
  void add(ConstMatrixView<float> reference, ConstMatrixView<float> quantized);
  /// The residual streams of the rows of `quantized`, which is the input.
  void add_residual(ConstMatrixView<float> reference, ConstMatrixView<float> stream,
                    ConstMatrixView<float> quantized);
  [[nodiscard]] StreamMoments take();

 private:
  model::InputGroup input_;
  Pool& pool_;
  Capture capture_;
  std::unique_ptr<CrossMoment> shift_;
  std::unique_ptr<CrossMoment> residual_;
};

}  // namespace cortiq::calib
