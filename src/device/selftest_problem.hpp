// selftest_problem.hpp: seeded Hessians and weights of the selftest, by the generator of gptq.md section 12.
#pragma once

#include <cstdint>
#include <vector>

#include "cortiq/support/parallel.hpp"
#include "cortiq/support/view.hpp"

namespace cortiq::device {

struct SelftestProblem {
  std::int64_t rows = 0;
  std::int64_t n = 0;
  std::vector<double> h;  ///< [n,n] symmetric
  std::vector<float> w;   ///< [rows,n]

  [[nodiscard]] ConstMatrixView<double> hessian() const { return {h.data(), n, n}; }
  [[nodiscard]] ConstMatrixView<float> weights() const { return {w.data(), rows, n}; }
};

struct ProblemSpec {
  std::int64_t rows = 0;
  std::int64_t n = 0;
  std::int64_t samples = 0;
  double common = 1;                ///< size of the 4 latent factors beside the channels' own noise of 0.3
  std::vector<std::int64_t> dead = {};   ///< channels that are always zero
  std::vector<std::int64_t> loud = {};   ///< channels times 30
  double decades = 0;               ///< sizes of the channels spread evenly over so many powers of ten
  std::uint64_t seed = 1;
};

/// H = X^T X of `samples` rows, W uniform in [-0.5, 0.5). Same values for every Pool size.
[[nodiscard]] SelftestProblem make_selftest_problem(const ProblemSpec& spec, Pool& pool);

/// Largest eigenvalue of H_d times that of H_d^-1 = U^T U, each by 60 steps of power iteration.
/// u in elimination order, like `elimination`.
[[nodiscard]] double damped_condition(const SelftestProblem& problem, double damping,
                                      const std::vector<std::int64_t>& elimination,
                                      ConstMatrixView<double> u);

}  // namespace cortiq::device
