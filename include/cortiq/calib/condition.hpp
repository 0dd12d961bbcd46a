// condition.hpp: estimates of the extreme eigenvalues of a Hessian, which say how hard it is to
// invert and what damping does to it (gptq.md section 3.1).
// Matrix: H [n,n] f64, upper triangle; channels that are dead (not H_ii > 0) are left out.
// Same bits for every Pool size.
#pragma once

#include <limits>
#include <optional>

#include "cortiq/calib/hessian.hpp"
#include "cortiq/support/parallel.hpp"

namespace cortiq::calib {

struct Condition {
  double largest = 0;              ///< eigenvalue, from below
  std::optional<double> smallest;  ///< eigenvalue, from above; nullopt: H does not factor (singular)
  double mean_diagonal = 0;        ///< over live channels: the unit of damping

  /// largest / smallest of H + lambda * mean_diagonal * I; infinite where that is singular.
  [[nodiscard]] double number(double lambda) const {
    const double damping = lambda * mean_diagonal;
    const double low = smallest.value_or(0) + damping;
    return low > 0 ? (largest + damping) / low : std::numeric_limits<double>::infinity();
  }
};

/// Rayleigh quotients after a few steps of power iteration with H and with its inverse (Cholesky).
/// Estimates: within some percent where the extreme eigenvalues stand apart, and inside the
/// spectrum always. nullopt if no channel is live.
/// @param h  finite; its lower triangle and the dead channels are overwritten.
/// Cost n^3/3 + 100 n^2 flops, no n^2 workspace.
[[nodiscard]] std::optional<Condition> estimate_condition(Hessian& h, Pool& pool);

}  // namespace cortiq::calib
