// post_norm.hpp: sequential calibration where a norm lies between a matrix and the residual stream
// (Gemma 2 and 3): h = r + g*y/rms(y), y = W x. In units of y/rms(y) what the residual streams
// differ by is (r - s)/g, and with rms(y) taken from the reference stream the problem becomes that
// of a matrix without a norm, with rows x/rms(y), q/rms(y), r/g, s/g. Tokens then weigh as much as
// they do behind the norm. 1/g is damped, g/(g^2 + 0.05*mean(g^2)), since a channel that the norm
// silences must not ask for a large weight.
#pragma once

#include <span>
#include <vector>

#include "cortiq/model/layer_weights.hpp"
#include "cortiq/support/parallel.hpp"
#include "cortiq/support/view.hpp"

namespace cortiq::pipeline {

/// Rows of a stage in both streams: inputs x, q [rows, n], residual streams r, s [rows, m].
struct StageRows {
  ConstMatrixView<float> x;
  ConstMatrixView<float> q;
  ConstMatrixView<float> r;
  ConstMatrixView<float> s;
};

class PostNormScale {
 public:
  /// @param reference  W, original weights   @param norm  g   @param eps  of the norm. Keeps
  /// references.
  PostNormScale(const model::LinearStack& reference, std::span<const float> norm, double eps,
                Pool& pool);
  /// Scaled copies, valid until the next call. Cost: the product W x, 2*rows*m*n flops.
  [[nodiscard]] StageRows apply(const StageRows& rows);

 private:
  const model::LinearStack& reference_;
  double eps_;
  Pool& pool_;
  std::vector<float> channel_;  ///< damped 1/g
  std::vector<float> output_;
  std::vector<float> x_;
  std::vector<float> q_;
  std::vector<float> r_;
  std::vector<float> s_;
};

}  // namespace cortiq::pipeline
