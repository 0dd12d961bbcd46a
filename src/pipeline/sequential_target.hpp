// sequential_target.hpp: the weights that a matrix is quantized towards under sequential
// calibration (docs/quality.md section 5):
//   W' = W + alpha * (W shift + residual) (H + rho*mean(diag H)*I)^-1
// W [rows,n]; H, shift [n,n], residual [rows,n] f64 from calib/stream_moments.hpp. With alpha 1 and
// rho -> 0 this is the least-squares solution of min |W x + r - s - W' q|. Factor and products f64;
// same bits for every Pool size. Cost n^3*2/3 for the factor, rows*n^2*4 per matrix.
#pragma once

#include <cstdint>
#include <optional>

#include "cortiq/calib/stream_moments.hpp"
#include "cortiq/pipeline/model_source.hpp"
#include "cortiq/support/page_buffer.hpp"
#include "cortiq/support/parallel.hpp"

namespace cortiq::pipeline {

class TargetSolver {
 public:
  /// Factors H + rho*mean(diag H)*I.
  TargetSolver(const calib::Hessian& hessian, double rho, Pool& pool);
  /// False if the matrix did not factor (rho too small for a singular H).
  [[nodiscard]] bool usable() const { return inverse_ != nullptr; }
  /// W' as f32. @param residual  may be null   Throws Error{kNumeric} if a value is not finite (the
  /// caller names the tensor).
  [[nodiscard]] DecodedTensor correct(const DecodedTensor& w, const calib::CrossMoment& shift,
                                      const calib::CrossMoment* residual, double alpha) const;

  /// Bytes of the solver and of the correction of a matrix [rows,n], beside the matrices themselves.
  [[nodiscard]] static std::uint64_t bytes(std::int64_t rows, std::int64_t n);

 private:
  /// rows [m,n] *= (H + ...)^-1, through `half` of the same shape.
  void apply_inverse(MatrixView<double> rows, MatrixView<double> half) const;

  std::int64_t n_;
  Pool& pool_;
  PageBuffer<double> inverse_;  // L^-1, lower; zeros above the diagonal
};

}  // namespace cortiq::pipeline
