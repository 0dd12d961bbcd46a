// metrics.hpp: quadratic forms x H y^T of matrix rows, f64, for output errors and debias (gptq.md
// section 7.2). H is read through its upper triangle and never mirrored. Same bits for every Pool
// size.
#pragma once

#include <cstdint>
#include <functional>
#include <span>

#include "cortiq/support/parallel.hpp"
#include "cortiq/support/view.hpp"

namespace cortiq::gptq {

/// out[r] = x_r H x_r^T. Cost rows*n^2 flops: 2 x (T x^T) with the triangle T = strict upper part +
/// half the diagonal.
void quadratic_rows(ConstMatrixView<double> x, ConstMatrixView<double> h_upper,
                    std::span<double> out, Pool& pool);

/// Writes columns [first, first + out.size()) of row r of the second operand.
using RowReader = std::function<void(std::int64_t r, std::int64_t first, std::span<double> out)>;

/// xx[r] = x_r H x_r^T and xy[r] = x_r H y_r^T. Cost 2*rows*n^2 flops.
void product_rows(ConstMatrixView<double> x, const RowReader& y, ConstMatrixView<double> h_upper,
                  std::span<double> xx, std::span<double> xy, Pool& pool);

}  // namespace cortiq::gptq
