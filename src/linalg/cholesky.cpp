#include "cortiq/linalg/cholesky.hpp"

#include <cmath>

namespace cortiq::linalg {

std::optional<std::int64_t> cholesky_in_place(MatrixView<double> a, Pool&) {
  for (std::int64_t i = 0; i < a.rows(); ++i) {
    for (std::int64_t j = 0; j <= i; ++j) {
      double sum = a(i, j);
      for (std::int64_t k = 0; k < j; ++k) sum -= a(i, k) * a(j, k);
      if (j < i) {
        a(i, j) = sum / a(j, j);
      } else {
        if (!(sum > 0.0) || !std::isfinite(sum)) return i;
        a(i, i) = std::sqrt(sum);
      }
    }
  }
  return std::nullopt;
}

void invert_lower_in_place(MatrixView<double> l, Pool&) {
  // Row i of L^-1 from the rows above: X(i,j) = -(sum_{k=j}^{i-1} L(i,k) X(k,j)) / L(i,i).
  for (std::int64_t i = 0; i < l.rows(); ++i) {
    const double inverse = 1.0 / l(i, i);
    for (std::int64_t j = 0; j < i; ++j) {
      double sum = 0.0;
      for (std::int64_t k = j; k < i; ++k) sum += l(i, k) * l(k, j);
      l(i, j) = -sum * inverse;
    }
    l(i, i) = inverse;
  }
}

}  // namespace cortiq::linalg
