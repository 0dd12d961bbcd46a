// hessian.hpp: H = sum of x x^T over calibration rows (no division by the count), one accumulator
// per shared input. Products of up to kGramBlockTokens rows are f32, their sums f64
// (linalg/gram.hpp). Same bits for every Pool size and for every way the rows of one input are cut
// into batches: rows are gathered to full blocks before they are added.
#pragma once

#include <cstdint>
#include <filesystem>
#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "cortiq/model/forward.hpp"
#include "cortiq/support/page_buffer.hpp"
#include "cortiq/support/parallel.hpp"
#include "cortiq/support/view.hpp"

namespace cortiq::calib {

/// Largest input width that a Hessian may have here and in a cache file: 32 GiB of f64.
inline constexpr std::int64_t kMaxHessianCols = 65536;

/// Owned n x n f64, upper triangle valid (diagonal included), zero at first, and the number of rows
/// summed. Pages that nobody writes, such as those below the diagonal of a large H, are never made
/// resident.
class Hessian {
 public:
  /// @param n  1..kMaxHessianCols. Throws Error{kOutOfMemory}.
  explicit Hessian(std::int64_t n);
  [[nodiscard]] std::int64_t n() const { return n_; }
  [[nodiscard]] MatrixView<double> view() { return {values_.get(), n_, n_}; }
  [[nodiscard]] ConstMatrixView<double> view() const { return {values_.get(), n_, n_}; }
  /// Sum of squares per channel (the diagonal, unless a cache file said otherwise).
  std::vector<double> sum_squares;
  std::int64_t count = 0;

 private:
  std::int64_t n_;
  PageBuffer<double> values_;
};

/// What a Hessian of n channels occupies once it is filled: its upper triangle in whole pages.
[[nodiscard]] std::uint64_t resident_hessian_bytes(std::int64_t n);
/// What it takes in the temporary file: the triangle alone.
[[nodiscard]] std::uint64_t spilled_hessian_bytes(std::int64_t n);
/// What a capture holds beside it: rows of an unfinished block.
[[nodiscard]] std::uint64_t capture_carry_bytes(std::int64_t n);

/// Bytes of the matrix of one Hessian of n channels.
[[nodiscard]] constexpr std::uint64_t hessian_bytes(std::int64_t n) {
  return 8 * static_cast<std::uint64_t>(n) * static_cast<std::uint64_t>(n);
}

/// Statistics worth reporting and the checks of calibration.md section 8.
struct HessianHealth {
  std::int64_t dead_channels = 0;     ///< not H_ii > 0
  bool rank_deficient = false;        ///< count < n
  std::int64_t outlier_channels = 0;  ///< H_ii > 100 x median of live H_ii
  double mean_diagonal = 0;           ///< over live channels
};
/// Throws Error{kNumeric} if an entry is NaN or infinite (the caller adds the tensor name).
[[nodiscard]] HessianHealth check_hessian(const Hessian& hessian, Pool& pool);
/// The same from the diagonal alone, which must be finite.
[[nodiscard]] HessianHealth diagonal_health(const std::vector<double>& diagonal,
                                            std::int64_t count);
/// Which channels diagonal_health counts, ascending.
struct ChannelLists {
  std::vector<std::int64_t> dead;
  std::vector<std::int64_t> outliers;
};
[[nodiscard]] ChannelLists channel_lists(const std::vector<double>& diagonal);

/// How much of its Hessians a capture may hold in memory; the others lie in a temporary file.
struct CaptureLimit {
  std::uint64_t resident_bytes = 0;  ///< at least the largest is held
  std::filesystem::path folder;
};

/// Observer that accumulates the inputs of chosen groups of one layer (or several). Structural:
/// keyed by (layer, role, expert).
class Capture final : public model::LinearObserver {
 public:
  /// @param groups  the inputs to accumulate; others are ignored
  Capture(std::vector<model::InputGroup> groups, Pool& pool,
          std::optional<CaptureLimit> limit = std::nullopt);
  ~Capture() override;
  [[nodiscard]] bool wants(std::int64_t layer, model::Role role,
                           std::int64_t expert) const override;
  /// A NaN or infinite row: Error{kNumeric} naming layer and role. Rows of another width than the
  /// group's: Error{kInput}.
  void observe(const model::LinearInput& input) override;
  /// Ends the accumulation. With a limit all Hessians lie on disk afterwards.
  void settle();
  /// Rows of group `index`.
  [[nodiscard]] std::int64_t count(std::size_t index) const;
  /// After settle(): the Hessian, which stays; a copy where it lies on disk. Valid as long as this
  /// capture, and until take(). Thread safe.
  [[nodiscard]] std::shared_ptr<const Hessian> read(std::size_t index) const;
  /// Gives the accumulator of group `index` away (count 0 if nothing was seen). Thread safe after
  /// settle().
  [[nodiscard]] std::unique_ptr<Hessian> take(std::size_t index);
  /// Seconds spent in observe and take so far.
  [[nodiscard]] double seconds() const;

 private:
  struct State;
  std::unique_ptr<State> state_;
};

}  // namespace cortiq::calib
