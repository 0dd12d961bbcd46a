// gram.hpp: H += X^T X, the second-moment sums of calibration (gptq.md section 2).
#pragma once

#include "cortiq/support/parallel.hpp"
#include "cortiq/support/view.hpp"

namespace cortiq::linalg {

/// Adds X^T X to the upper triangle of h. x [tokens, n] f32, h [n, n] f64; entries below the diagonal are untouched.
/// Products of up to kGramBlockTokens tokens are summed in f32, the blocks in f64. Cost tokens*n^2 flops.
/// Same bits for every Pool size, and independent of how callers split x at multiples of kGramBlockTokens.
void gram_accumulate(ConstMatrixView<float> x, MatrixView<double> h, Pool& pool);
inline constexpr std::int64_t kGramBlockTokens = 256;

/// Adds X^T Y to c. x [tokens, m] f32, y [tokens, n] f32, c [m, n] f64; sums as in gram_accumulate.
/// Cost 2*tokens*m*n flops. Same bits for every Pool size.
void cross_accumulate(ConstMatrixView<float> x, ConstMatrixView<float> y, MatrixView<double> c, Pool& pool);

/// Copies the upper triangle to the lower.
void mirror_upper(MatrixView<double> h, Pool& pool);

}  // namespace cortiq::linalg
