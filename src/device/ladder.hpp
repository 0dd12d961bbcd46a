// ladder.hpp: kernels that place, refit and tabulate the ladders of rows (shaders/sweep/row_ladder.comp,
// ladder_*.comp). All addresses are device addresses; params are u32 per row: f16 lo | f16 step << 16.
// The calls record dispatches without barriers: what a call reads must have been finished by stream.barrier() before, and
// what it writes is visible after one. Rows of one call are independent.
#pragma once

#include <cstdint>

#include "cortiq/gptq/options.hpp"
#include "engine.hpp"

namespace cortiq::device {

enum class LadderRule : std::uint32_t {
  kQ4tp = layout::kLadderQ4tp,
  kPlaced = layout::kLadderPlaced,
  kCortiq = layout::kLadderCortiq,
};

/// options.target: kQ4tp or kQ2tp.
[[nodiscard]] LadderRule ladder_rule(const gptq::SweepOptions& options);

struct RowLadders {
  LadderRule rule = LadderRule::kQ4tp;
  bool widen = false;         ///< for the first pass of the fit, as gptq::widened_ladder
  std::int64_t rows = 0;
  std::int64_t n = 0;         ///< a multiple of 32
  std::uint64_t weights = 0;  ///< [rows][n] f32, natural order, finite; 16-byte aligned like the next two
  std::uint64_t live = 0;     ///< [n] f32, 1 or 0
  std::uint64_t hw = 0;       ///< [n] f32 >= 0; kPlaced only
  std::uint64_t params = 0;   ///< [rows] out
  /// [rows][n/32] u32 out: the rungs of rounding on the ladder before it is widened, 0 for groups of zeros. 0: not written.
  std::uint64_t rungs = 0;
};
/// gptq::converter_ladder of each row. Cost: kPlaced some 700 operations a weight, else the reading of the weights twice.
/// Weights beyond what f16 scales hold give ladders whose last scale is infinite.
void place_row_ladders(const Engine& engine, vulkan::Stream& stream, const RowLadders& work);

struct LadderRefit {
  LadderRule rule = LadderRule::kQ4tp;
  std::int64_t rows = 0;
  std::int64_t groups = 0;
  std::uint64_t wide = 0;    ///< [rows] params of the first pass
  std::uint64_t rungs = 0;   ///< [rows][groups] u32 that it used, kNoRung for zero groups
  std::uint64_t params = 0;  ///< [rows] out; may be `wide`
};
/// gptq::refitted_ladder; rows without a used rung keep `wide` (which place_row_ladders did not widen if all was zero).
void refit_ladders(const Engine& engine, vulkan::Stream& stream, const LadderRefit& work);

struct LadderTables {
  LadderRule rule = LadderRule::kQ4tp;
  std::int64_t rows = 0;
  std::uint64_t params = 0;  ///< [rows]
  std::uint64_t table = 0;   ///< [rows][32] f32 out
};
/// gptq::ladder_table of each row.
void fill_ladder_tables(const Engine& engine, vulkan::Stream& stream, const LadderTables& work);

}  // namespace cortiq::device
