// linear.hpp: a stack of matrices applied to rows.
#pragma once

#include "cortiq/linalg/gemm.hpp"
#include "cortiq/model/layer_weights.hpp"

namespace cortiq::model {

/// y = x * W^T for all matrices of the stack.
inline void apply(const LinearStack& stack, ConstMatrixView<float> x, MatrixView<float> y,
                  Pool& pool) {
  linalg::gemm_f32(linalg::Trans::kNo, linalg::Trans::kYes, 1.0F, x, stack.view(), 0.0F, y, pool);
}

}  // namespace cortiq::model
