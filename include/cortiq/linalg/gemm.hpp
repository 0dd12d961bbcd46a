// gemm.hpp: matrix products on fixed tiles. Row-major operands, any sizes and strides.
// Determinism: same bits for every Pool size (fixed blocking, one writer per output, ordered K). Different instruction
// sets may differ in rounding.
#pragma once

#include <cstdint>

#include "cortiq/support/parallel.hpp"
#include "cortiq/support/view.hpp"

namespace cortiq::linalg {

enum class Trans { kNo, kYes };

/// C = beta*C + alpha*op(A)*op(B); op(A) [m,k], op(B) [k,n], C [m,n]. beta == 0 overwrites C (which may hold NaN).
/// C must not overlap A or B. Cost 2mnk flops.
void gemm_f32(Trans trans_a, Trans trans_b, float alpha, ConstMatrixView<float> a, ConstMatrixView<float> b,
              float beta, MatrixView<float> c, Pool& pool);
void gemm_f64(Trans trans_a, Trans trans_b, double alpha, ConstMatrixView<double> a, ConstMatrixView<double> b,
              double beta, MatrixView<double> c, Pool& pool);

/// Bytes that a product into C [m,n] packs its operands into.
[[nodiscard]] std::uint64_t gemm_f32_scratch_bytes(std::int64_t m, std::int64_t n) noexcept;
[[nodiscard]] std::uint64_t gemm_f64_scratch_bytes(std::int64_t m, std::int64_t n) noexcept;

}  // namespace cortiq::linalg
