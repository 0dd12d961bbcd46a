// chunk_moves.cpp: the larger steps of the polish: whole groups with their rungs, and the scale of a
// row (docs/quality.md, "group moves", "row scale").
#include <algorithm>
#include <array>
#include <cmath>

#include "chunk_sweep.hpp"
#include "cortiq/support/half.hpp"

namespace cortiq::gptq {
namespace {

constexpr std::int64_t kRowGrain = 8;

std::size_t at(std::int64_t i) { return static_cast<std::size_t>(i); }

double dot(const double* a, const double* b, std::int64_t n) {
  double sum = 0;
  for (std::int64_t i = 0; i < n; ++i) sum += a[i] * b[i];
  return sum;
}

}  // namespace

/// A row moves where rounding its minimum anew, with the best rung, loses less than its codes do.
void ChunkSweep::move_groups(std::int64_t slab, std::int64_t position, const double* gradient,
                             GroupLanes& change) {
  std::fill(change.values.begin(), change.values.end(), 0.0);
  const BlockFactor& block = plan_.blocks[at(position / kGroupCols)];
  if (!block.usable) return;
  const std::int64_t first_row = slab * kSlabRows;
  const std::int64_t group = plan_.factor.elimination[at(position)] / kGroupCols;
  const double offset = plan_.four_bit ? 8.0 : 1.5;
  std::uint8_t* codes = codes_.data() + (first_row * plan_.cols + position * kSlabRows);
  const std::array<double, kSlabRows> scales = chosen_scales(slab, position);
  GroupLanes values;
  for (std::size_t i = 0; i < values.values.size(); ++i)
    values.values[i] = (static_cast<double>(codes[i]) - offset) * scales[i % kSlabRows];
  GroupLanes x;
  alignas(64) std::array<double, kSlabRows> held{};
  CORTIQ_SIMD_DISPATCH(pool_.simd(), group_minimum,
                       (MinimumArgs{gradient, block.inverse.data(), values.values.data(),
                                    x.values.data(), held.data()}));
  const SlabLadders ladders{tables_.data() + first_row * codec::kRungs, lo_.data() + first_row,
                            step_.data() + first_row};
  const RungSearch search = plan_.search == RungSearch::kSimulatedFull ? RungSearch::kSimulatedFull
                                                                       : RungSearch::kSimulated;
  const auto rungs = choose_rungs(search, plan_.four_bit, x.values.data(), ladders, block.factor,
                                  pool_.simd());
  alignas(64) std::array<double, kSlabRows> new_scales{};
  slab_scales(slab, position, rungs, new_scales.data());
  std::array<std::uint8_t, kGroupCols * kSlabRows> new_codes{};
  GroupLanes error;
  alignas(64) std::array<double, kSlabRows> loss{};
  RoundArgs round{};
  round.x = x.values.data();
  round.ratio = block.factor.ratio.data();
  round.inverse = block.factor.inverse.data();
  round.scales = new_scales.data();
  round.four_bit = plan_.four_bit;
  round.codes = new_codes.data();
  round.error = error.values.data();
  round.loss = loss.data();
  CORTIQ_SIMD_DISPATCH(pool_.simd(), round_group, round);
  for (std::int64_t r = 0; r < kSlabRows; ++r) {
    if (!(loss[at(r)] < held[at(r)])) continue;
    loss_[at(first_row + r)] += loss[at(r)] - held[at(r)];
    rung(first_row + r, group) = rungs[at(r)];
    for (std::size_t i = at(r); i < new_codes.size(); i += kSlabRows) {
      const double now = (static_cast<double>(new_codes[i]) - offset) * new_scales[at(r)];
      change.values[i] = values.values[i] - now;
      codes[i] = new_codes[i];
    }
  }
}

/// With <a,b> = a H_d b^T the loss of Q' = s*Q is s^2 <Q,Q> - 2s <Q,W> + <W,W>, least at <Q,W>/<Q,Q>.
/// A row keeps its ladder where the nearest f16 does not gain more than f32 rounding of the scales
/// could lose.
void ChunkSweep::fit_row_scales() {
  const std::int64_t n = plan_.cols;
  const std::int64_t padded = slabs() * kSlabRows;
  std::vector<double> rows(at(padded * n), 0.0);
  {
    std::vector<double> product(rows.size());
    fill_quantized(rows);
    multiply_damped(rows, product);
    pool_.for_ranges(rows_, kRowGrain, [&](std::int64_t begin, std::int64_t end) {
      for (std::int64_t r = begin; r < end; ++r) {
        const double* q = rows.data() + r * n;
        const double square = dot(q, product.data() + r * n, n);
        fit_row_scale(r, square, square - dot(q, work_.data() + r * n, n));
      }
    });
  }
  check_ladders();
  std::fill(rows.begin(), rows.end(), 0.0);
  fill_error(rows);
  multiply_damped(rows, work_);
  for (std::int64_t r = 0; r < rows_; ++r)
    loss_[at(r)] = dot(rows.data() + r * n, work_.data() + r * n, n);
}

void ChunkSweep::fit_row_scale(std::int64_t row, double square, double cross) {
  constexpr double kScaleRounding = 2e-7;
  if (!(square > 0) || !(cross > 0)) return;
  const codec::LadderParams before = params_[at(row)];
  const codec::LadderParams after = codec::unshrink(before, square, cross);
  const double s = std::exp2(static_cast<double>(f16_to_f32(after.lo)) -
                             static_cast<double>(f16_to_f32(before.lo)));
  const double gain = 2 * (s - 1) * cross - (s * s - 1) * square;
  if (gain > kScaleRounding * std::sqrt(std::max(loss_[at(row)], 0.0) * square))
    set_ladder(row, after);
}

}  // namespace cortiq::gptq
