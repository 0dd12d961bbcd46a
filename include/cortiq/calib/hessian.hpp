// hessian.hpp: H = sum of x x^T over calibration rows (no division by the count), one accumulator per shared input.
#pragma once

#include <cstdint>
#include <memory>
#include <string>
#include <vector>

#include "cortiq/model/forward.hpp"
#include "cortiq/support/parallel.hpp"
#include "cortiq/support/view.hpp"

namespace cortiq::calib {

/// Owned n x n f64, upper triangle valid (diagonal included), and the number of rows summed.
class Hessian {
 public:
  explicit Hessian(std::int64_t n) : n_(n), values_(static_cast<std::size_t>(n * n)) {}
  [[nodiscard]] std::int64_t n() const { return n_; }
  [[nodiscard]] MatrixView<double> view() { return {values_.data(), n_, n_}; }
  [[nodiscard]] ConstMatrixView<double> view() const { return {values_.data(), n_, n_}; }
  /// Sum of squares per channel (the diagonal, unless a cache file said otherwise).
  std::vector<double> sum_squares;
  std::int64_t count = 0;

 private:
  std::int64_t n_;
  std::vector<double> values_;
};

/// Statistics worth reporting and the checks of calibration.md section 8.
struct HessianHealth {
  std::int64_t dead_channels = 0;
  bool rank_deficient = false;          ///< count < n
  std::int64_t outlier_channels = 0;    ///< H_ii > 100 x median of live H_ii
  double mean_diagonal = 0;             ///< over live channels
};
/// Throws Error{kNumeric} if an entry is NaN or infinite (the caller adds the tensor name).
[[nodiscard]] HessianHealth check_hessian(const Hessian& hessian, Pool& pool);

/// Observer that accumulates the inputs of chosen groups of one layer (or several). Structural: keyed by (layer, role, expert).
class Capture final : public model::LinearObserver {
 public:
  /// @param groups  the inputs to accumulate; others are ignored
  Capture(std::vector<model::InputGroup> groups, Pool& pool);
  ~Capture() override;
  [[nodiscard]] bool wants(std::int64_t layer, model::Role role, std::int64_t expert) const override;
  /// A NaN or infinite row: Error{kNumeric} naming layer and role.
  void observe(const model::LinearInput& input) override;
  /// Gives the accumulator of group `index` away (count 0 if nothing was seen).
  [[nodiscard]] std::unique_ptr<Hessian> take(std::size_t index);
  /// Seconds spent in observe so far.
  [[nodiscard]] double seconds() const;

 private:
  struct State;
  std::unique_ptr<State> state_;
};

}  // namespace cortiq::calib
