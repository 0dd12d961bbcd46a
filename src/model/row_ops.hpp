// row_ops.hpp: the row kernels over whole matrices, rows spread over the pool in fixed pieces.
#pragma once

#include <cstdint>
#include <optional>
#include <span>

#include "cortiq/model/arch.hpp"
#include "cortiq/support/parallel.hpp"
#include "cortiq/support/view.hpp"

namespace cortiq::model {

void norm_rows(ConstMatrixView<float> x, std::span<const float> weight, double eps,
               MatrixView<float> out, Pool& pool);
/// h += y; the first row that is then not finite, if any.
[[nodiscard]] std::optional<std::int64_t> add_matrix(MatrixView<float> h, ConstMatrixView<float> y,
                                                     Pool& pool);
/// gate = act(gate) * up.
void activate_rows(Activation activation, MatrixView<float> gate, ConstMatrixView<float> up,
                   Pool& pool);
void soft_cap_rows(MatrixView<float> x, double cap, Pool& pool);
void scale_matrix(MatrixView<float> x, float factor, Pool& pool);

/// out row r = x row index[r].
void gather_rows(ConstMatrixView<float> x, std::span<const std::int32_t> index,
                 MatrixView<float> out, Pool& pool);
/// h row index[r] += factor[r] * y row r; no row of h occurs twice.
void add_scaled_rows(MatrixView<float> h, std::span<const std::int32_t> index,
                     std::span<const float> factor, ConstMatrixView<float> y, Pool& pool);

}  // namespace cortiq::model
