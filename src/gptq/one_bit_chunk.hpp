// one_bit_chunk.hpp: the sweep of q1s and q1t over one chunk of rows. Works as the sweep of the
// ladder codecs does (chunk_sweep.hpp), with a free half scale per group instead of a ladder, and
// an overlay that takes its places out of the rounding. Rows are independent; columns stand in
// elimination order. Memory: 18 n bytes a row; cost rows*n^2 flops, and 2 n a weight for each pass
// of the polish and as many before it.
#pragma once

#include <cstdint>
#include <vector>

#include "one_bit_codes.hpp"
#include "one_bit_group.hpp"
#include "sweep_plan.hpp"

namespace cortiq::gptq {

class OneBitChunk {
 public:
  /// w: the whole tensor; the chunk is its rows [first_row, first_row + rows).
  OneBitChunk(const SweepPlan& plan, ConstMatrixView<float> w, std::int64_t first_row,
              std::int64_t rows, const OverlayMask& mask, Pool& pool);

  /// Codes and scales, with feedback. The overlay holds the original weights; what the feedback
  /// changed at them is passed on.
  void run();
  /// One factor for the scales of each row: the minimum of the damped loss, 0.5 to 2.
  void rescale_rows();
  /// Coordinate descent on scales, codes and overlay values; never raises the damped loss.
  void polish(int passes);
  void store(OneBitCodes& out) const;

 private:
  using Values = std::vector<double>;
  void fill(const OverlayMask& mask);
  void sweep_row(std::int64_t r, std::int64_t begin, std::int64_t end);
  void polish_row(std::int64_t r, std::int64_t begin, std::int64_t end);
  /// Q without the overlay, or Q - W.
  void fill_base(Values& out) const;
  void fill_error(Values& out) const;
  /// out = x H_d.
  void product(const Values& x, Values& out) const;
  [[nodiscard]] OneBitGroup group(std::int64_t r, std::int64_t position, const double* x) const;
  [[nodiscard]] std::size_t place(std::int64_t r, std::int64_t position) const {
    return static_cast<std::size_t>(r * plan_.cols + position);
  }
  [[nodiscard]] std::size_t scale_place(std::int64_t r, std::int64_t position) const {
    return static_cast<std::size_t>(r * (plan_.cols / kGroupCols) + position / kGroupCols);
  }
  [[nodiscard]] bool ternary() const { return plan_.options.target == Target::kQ1t; }

  const SweepPlan& plan_;
  ConstMatrixView<float> w_;
  std::int64_t first_row_;
  std::int64_t rows_;
  Pool& pool_;
  Values work_;      ///< [rows][cols] corrected weights, then the gradient (Q - W) H_d
  Values overlay_;   ///< [rows][cols] values under the mask
  Values residual_;  ///< [rows][kBlockCols] what a block passes on
  Values scales_;    ///< [rows][groups]
  std::vector<std::int8_t> codes_;    ///< [rows][cols]
  std::vector<std::uint8_t> masked_;  ///< [rows][cols]
};

}  // namespace cortiq::gptq
