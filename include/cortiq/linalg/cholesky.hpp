// cholesky.hpp: blocked Cholesky factor and triangular inverse of dense f64 matrices.
// Determinism: same bits for every Pool size (fixed tiles, ordered updates). In place, no n^2 workspace.
#pragma once

#include <cstdint>
#include <optional>

#include "cortiq/support/parallel.hpp"
#include "cortiq/support/view.hpp"

namespace cortiq::linalg {

/// A = L L^T in place. Reads only the lower triangle of a [n,n]; on return it holds L, the strict upper triangle is untouched.
/// @return nullopt, or the 0-based index of the first pivot <= 0 or not finite (a is then garbage; the caller decides
///         about damping). Cost n^3/3 flops.
[[nodiscard]] std::optional<std::int64_t> cholesky_in_place(MatrixView<double> a, Pool& pool);

/// L^-1 in place; reads and writes only the lower triangle. Diagonal must be nonzero. Cost n^3/3 flops.
void invert_lower_in_place(MatrixView<double> l, Pool& pool);

}  // namespace cortiq::linalg
