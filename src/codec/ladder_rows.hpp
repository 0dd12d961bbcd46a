// ladder_rows.hpp: ladder and rungs of one row by the converter's rules, with buffers kept over
// rows.
#pragma once

#include <cstdint>
#include <span>
#include <vector>

#include "cortiq/codec/ladder.hpp"
#include "kernels.hpp"

namespace cortiq::codec {

/// Lowest and highest log2 scale of the live groups of a row.
struct LogRange {
  float lo = 0.0F;
  float hi = 0.0F;
};

/// Works on one row at a time; results stay valid until the next call. Not shared between threads.
class LadderRow {
 public:
  explicit LadderRow(SimdLevel level) : kernels_(search_kernels(level)) {}

  /// q4tp (codecs.md section 3).
  void q4tp(std::span<const float> row, bool search);
  /// q2tp from the largest magnitudes (section 4.1).
  void q2tp_v1(std::span<const float> row, bool search);
  /// q2tp by placement (section 4.2). hw is empty (all ones) or has a weight per column.
  void q2tp_place(std::span<const float> row, std::span<const float> hw);

  [[nodiscard]] LadderParams params() const noexcept { return params_; }
  [[nodiscard]] std::span<const std::uint8_t> rungs() const noexcept { return rungs_; }

 private:
  void start(std::span<const float> row);
  [[nodiscard]] std::int64_t groups() const noexcept {
    return static_cast<std::int64_t>(rungs_.size());
  }
  [[nodiscard]] bool dead(std::size_t g) const noexcept { return largest_[g] == 0.0F; }
  /// Fills logs_ from scales (one per group).
  LogRange measure(std::span<const float> scales);
  void nominal_rungs(LadderParams params, int lowest);
  void clear_dead_rungs() noexcept;
  [[nodiscard]] LadderParams best_v1_top(LogRange range);
  [[nodiscard]] float probe_v1(LadderParams params);

  SearchKernels kernels_;
  std::span<const float> row_;
  LadderParams params_;
  std::vector<std::uint8_t> rungs_;
  std::vector<std::uint8_t> nominal_;
  std::vector<float> largest_;  ///< largest magnitude of each group
  std::vector<float> scales_;
  std::vector<float> logs_;
  std::vector<float> errors_;
};

}  // namespace cortiq::codec
