// chunk_sweep.hpp: the GPTQ sweep over one chunk of rows (gptq.md sections 4 to 6; docs/quality.md
// sections 1 to 3). W [rows,n] f32 natural order -> codes and rungs at natural places. Rows are
// independent; work is cut into slabs of 16 rows and blocks of 128 columns whatever the number of
// threads. Memory: 8 n + n + n/32 bytes a row and some; cost rows*n^2 flops a pass plus the rung
// search.
#pragma once

#include <array>
#include <cstdint>
#include <span>
#include <vector>

#include "cortiq/codec/ladder.hpp"
#include "cortiq/support/parallel.hpp"
#include "cortiq/support/view.hpp"
#include "sweep_plan.hpp"

namespace cortiq::gptq {

class ChunkSweep {
 public:
  /// w: at most kChunkRows rows. first_row: of the tensor, for messages.
  ChunkSweep(const SweepPlan& plan, ConstMatrixView<float> w, std::int64_t first_row, Pool& pool);

  /// First: the ladders that rounding would use, widened for the fit. Throws Error{kNumeric} where
  /// the scales exceed what a file can hold.
  void choose_converter_ladders();
  /// Then: rungs and codes; the fit moves the ladders in between. Throws as above.
  void run();
  /// Coordinate descent on the codes, and with the options for it on whole groups and row scales;
  /// never raises the damped loss. Nothing with act order or an identity fold. Cost 2 n flops a
  /// weight and as many per pass; group moves as many again and a rung search, row scales 4 n.
  void polish(int passes);
  /// tr((W-Q) H (W-Q)^T) and tr(W H W^T) of the chunk; with options.debias the ladders are moved
  /// first.
  void measure();
  /// Writes the chunk's part of the three planes; returns the number of all-zero groups.
  std::int64_t pack(std::span<std::byte> payload, std::int64_t tensor_rows) const;

  [[nodiscard]] double error() const { return error_; }
  [[nodiscard]] double energy() const { return energy_; }

 private:
  void refit_ladders();
  void set_ladder(std::int64_t row, codec::LadderParams params);
  void check_ladders() const;
  void fill_work();
  void fill_natural(bool subtract_quantized);
  void pass();
  // chunk_polish.cpp, chunk_moves.cpp. work_ holds G = (Q - W) H_d, elimination order.
  enum class Move { kCodes, kGroups };
  /// [32][16] numbers of a slab.
  struct GroupLanes {
    alignas(64) std::array<double, kGroupCols * kSlabRows> values;
  };
  void fill_quantized(std::vector<double>& rows) const;
  void fill_error(std::vector<double>& error) const;
  /// out = rows * H_d, both [padded rows][cols].
  void multiply_damped(const std::vector<double>& rows, std::vector<double>& out) const;
  void move_pass(Move move, bool more_follow);
  void move_slab(Move move, std::int64_t slab, std::int64_t begin, std::int64_t end);
  /// Change codes (and rungs) of a group; `change` takes old minus new value.
  void move_codes(std::int64_t slab, std::int64_t position, const double* gradient,
                  GroupLanes& change);
  void move_groups(std::int64_t slab, std::int64_t position, const double* gradient,
                   GroupLanes& change);
  /// Scale of the rows of a slab in the group at `position`; 0 for a zero group.
  [[nodiscard]] std::array<double, kSlabRows> chosen_scales(std::int64_t slab,
                                                            std::int64_t position) const;
  void fit_row_scales();
  void fit_row_scale(std::int64_t row, double square, double cross);
  void sweep_slab(std::int64_t slab, std::int64_t begin, std::int64_t end);
  void load_slab(std::int64_t slab, std::int64_t begin, std::int64_t end, double* x) const;
  std::array<std::uint8_t, kSlabRows> slab_rungs(std::int64_t slab, std::int64_t position,
                                                 const double* x) const;
  void slab_scales(std::int64_t slab, std::int64_t position,
                   std::span<const std::uint8_t, kSlabRows> rungs, double* scales) const;
  void store_rungs(std::int64_t slab, std::int64_t position,
                   std::span<const std::uint8_t, kSlabRows> rungs);
  /// Codes of channels [first, first + out.size()) of a row.
  void natural_codes(std::int64_t row, std::int64_t first, std::span<std::uint8_t> out) const;
  void dequantize(std::int64_t row, std::int64_t first, std::span<double> out) const;
  std::vector<double> loss_of_rows();
  [[nodiscard]] double damped_share(std::int64_t row) const;
  std::int64_t pack_row(std::int64_t row, const codec::PlaneLayout& layout,
                        std::span<std::byte> payload) const;
  void debias(std::vector<double>& error_rows);
  [[nodiscard]] std::int64_t slabs() const { return (rows_ + kSlabRows - 1) / kSlabRows; }
  [[nodiscard]] std::uint8_t& rung(std::int64_t row, std::int64_t group) {
    return rungs_[static_cast<std::size_t>(row * group_count_ + group)];
  }
  [[nodiscard]] std::uint8_t rung(std::int64_t row, std::int64_t group) const {
    return rungs_[static_cast<std::size_t>(row * group_count_ + group)];
  }

  const SweepPlan& plan_;
  ConstMatrixView<float> w_;
  std::int64_t first_row_;
  Pool& pool_;
  std::int64_t rows_;
  std::int64_t group_count_;
  std::vector<codec::LadderParams> params_;
  std::vector<float> tables_;        ///< [padded rows][32]
  std::vector<float> lo_, step_;     ///< [padded rows]
  std::vector<double> work_;         ///< [padded rows][cols], elimination order
  std::vector<double> residual_;     ///< [padded rows][kBlockCols], (w - q) / U_jj
  std::vector<double> loss_;         ///< [padded rows], sum of residual^2 = damped loss
  std::vector<std::uint8_t> codes_;  ///< [slabs][cols][16], elimination order
  std::vector<std::uint8_t>
      rungs_;  ///< [padded rows][groups], natural order, kNoRung for a zero group
  double error_ = 0;
  double energy_ = 0;
};

}  // namespace cortiq::gptq
