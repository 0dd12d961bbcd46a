// fold.hpp: the host's fold, H -> U with H_d^-1 = U^T U (gptq.md sections 3.1, 3.3, 3.4;
// docs/quality.md section 3). Matrices: H [n,n] f64 sums, upper triangle read; H_d = H +
// lambda*base*I in elimination order, dead channels cut out and given a unit diagonal; U [n,n] f64
// upper, zeros below the diagonal. Memory: one n^2 f64 buffer beside H, which becomes U. Cost 2/3
// n^3 flops. Same bits for every Pool size.
#pragma once

#include <cstdint>
#include <memory>
#include <optional>
#include <vector>

#include "cortiq/gptq/backend.hpp"
#include "cortiq/gptq/options.hpp"
#include "cortiq/support/page_buffer.hpp"
#include "cortiq/support/parallel.hpp"
#include "cortiq/support/view.hpp"

namespace cortiq::gptq {

class HostFactor final : public Factor {
 public:
  [[nodiscard]] std::int64_t n() const override {
    return static_cast<std::int64_t>(elimination.size());
  }
  /// Row j and column j belong to channel elimination[j]. The identity where no damping up to 10
  /// factored.
  [[nodiscard]] ConstMatrixView<double> u() const { return {values.get(), n(), n()}; }

  /// H_d, full and symmetric, in the order of u(). Only with FoldOptions::keep_damped and where the
  /// fold factored.
  [[nodiscard]] ConstMatrixView<double> damped_h() const { return {damped.get(), n(), n()}; }
  [[nodiscard]] bool has_damped_h() const { return damped != nullptr; }

  PageBuffer<double> values;              ///< n^2, row-major
  PageBuffer<double> damped;              ///< n^2 or empty
  std::vector<std::int64_t> elimination;  ///< position -> channel
  std::vector<std::uint8_t> dead;         ///< by channel: !(H_ii > 0)
  double damping = 0;                     ///< lambda_used * base, what was added to every H_ii
  bool mostly_dead = false;  ///< too few live channels to trust: round the real weights, zero none
  bool dead_rows_zero = true;  ///< H is zero in every row and column of a dead channel
};

/// Fewer live channels than n / kLiveShareFloor: the calibration did not reach this input, and
/// zeroing the dead channels would wipe out the tensor (Factor::identity is set as well).
inline constexpr std::int64_t kLiveShareFloor = 16;

/// What the diagonal of H says about its channels.
struct ChannelFacts {
  std::vector<std::uint8_t> dead;  ///< by channel: !(H_ii > 0)
  std::int64_t dead_channels = 0;
  bool mostly_dead = false;     ///< see HostFactor::mostly_dead
  bool dead_rows_zero = true;   ///< see HostFactor::dead_rows_zero
  double base = 0;              ///< damping unit: mean of H_ii over live channels, at least 1e-12
};
[[nodiscard]] ChannelFacts examine_channels(ConstMatrixView<double> h_upper);

/// The relative damping to try after `lambda` failed; nullopt: give up (gptq.md section 3.1).
[[nodiscard]] std::optional<double> next_lambda(double lambda);

/// Position -> channel. kNatural: 0..n-1. kAct: by descending f32(H_ii), ties by lower index, dead
/// channels as 0. kGroup: groups of 32 by descending sum of H_ii, inside a group by descending H_ii
/// (n % 32 == 0, else as kNatural).
[[nodiscard]] std::vector<std::int64_t> elimination_order(ConstMatrixView<double> h_upper,
                                                          Order order);

/// Damping lambda*base is raised as gptq.md section 3.1 says until the matrix factors; all tries
/// are reported.
[[nodiscard]] std::unique_ptr<HostFactor> fold_host(ConstMatrixView<double> h_upper,
                                                    const FoldOptions& options, Pool& pool);

/// Index (row*n + col, col >= row) of the first NaN or infinity of the upper triangle; nullopt if
/// all are finite.
[[nodiscard]] std::optional<std::int64_t> find_non_finite_upper(ConstMatrixView<double> h_upper,
                                                                Pool& pool);

}  // namespace cortiq::gptq
