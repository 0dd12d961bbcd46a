#include "chunk_sweep.hpp"

#include <algorithm>
#include <array>

#include "cortiq/linalg/gemm.hpp"
#include "cortiq/support/half.hpp"
#include "row_ladder.hpp"

namespace cortiq::gptq {

namespace {

constexpr std::int64_t kRowGrain = 4;

std::size_t at(std::int64_t i) { return static_cast<std::size_t>(i); }

}  // namespace

ChunkSweep::ChunkSweep(const SweepPlan& plan, ConstMatrixView<float> w, std::int64_t first_row,
                       Pool& pool)
    : plan_(plan),
      w_(w),
      first_row_(first_row),
      pool_(pool),
      rows_(w.rows()),
      group_count_(plan.cols / kGroupCols),
      params_(at(rows_)) {
  const std::int64_t padded = slabs() * kSlabRows;
  tables_.assign(at(padded * codec::kRungs), 1.0F);
  lo_.assign(at(padded), 0.0F);
  step_.assign(at(padded), 0.0F);
  work_.assign(at(padded * plan.cols), 0.0);
  residual_.assign(at(padded * kBlockCols), 0.0);
  loss_.assign(at(padded), 0.0);
  codes_.assign(at(padded * plan.cols), 0);
  rungs_.assign(at(padded * group_count_), 0);
}

void ChunkSweep::run() {
  fill_work();
  pass();
  if (!plan_.fit) return;
  refit_ladders();
  check_ladders();
  fill_work();
  pass();
}

void ChunkSweep::choose_converter_ladders() {
  pool_.for_ranges(rows_, kRowGrain, [&](std::int64_t begin, std::int64_t end) {
    std::vector<float> row(at(plan_.cols));
    for (std::int64_t r = begin; r < end; ++r) {
      std::copy(w_.row(r), w_.row(r) + plan_.cols, row.begin());
      for (std::size_t c = 0; plan_.zero_dead && c < row.size(); ++c) {
        if (plan_.factor.dead[c] != 0) row[c] = 0.0F;
      }
      std::span<std::uint8_t> rungs;
      if (plan_.fixed_rungs)
        rungs = std::span(rungs_).subspan(at(r * group_count_), at(group_count_));
      codec::LadderParams params = converter_ladder(plan_.options, row, plan_.weights, rungs);
      if (plan_.fit) params = widened_ladder(plan_.options.target, params, row);
      set_ladder(r, params);
    }
  });
  check_ladders();
}

/// A row without a live group was not widened, and keeps its ladder.
void ChunkSweep::refit_ladders() {
  for (std::int64_t r = 0; r < rows_; ++r) {
    int least = kNoRung;
    int greatest = -1;
    for (std::int64_t g = 0; g < group_count_; ++g) {
      const int used = rung(r, g);
      if (used == kNoRung) continue;
      least = std::min(least, used);
      greatest = std::max(greatest, used);
    }
    if (greatest >= 0)
      set_ladder(r, refitted_ladder(plan_.options.target, params_[at(r)], least, greatest));
  }
}

void ChunkSweep::set_ladder(std::int64_t row, codec::LadderParams params) {
  params_[at(row)] = params;
  lo_[at(row)] = f16_to_f32(params.lo);
  step_[at(row)] = f16_to_f32(params.step);
  const codec::Ladder table = ladder_table(plan_.options.target, params);
  std::copy(table.begin(), table.end(), tables_.begin() + row * codec::kRungs);
}

void ChunkSweep::check_ladders() const {
  for (std::int64_t r = 0; r < rows_; ++r) {
    if (ladder_is_finite(params_[at(r)])) continue;
    fail(
        ErrorKind::kNumeric,
        "row {}: weights are too large for the f16 scales of {}; use another codec for this tensor",
        first_row_ + r, plan_.four_bit ? "q4tp" : "q2tp");
  }
}

void ChunkSweep::fill_work() {
  std::fill(loss_.begin(), loss_.end(), 0.0);
  const std::vector<std::int64_t>& channels = plan_.factor.elimination;
  pool_.for_ranges(rows_, kRowGrain, [&](std::int64_t begin, std::int64_t end) {
    for (std::int64_t r = begin; r < end; ++r) {
      double* out = work_.data() + r * plan_.cols;
      for (std::int64_t a = 0; a < plan_.cols; ++a) {
        const std::int64_t channel = channels[at(a)];
        const bool zero = plan_.zero_dead && plan_.factor.dead[at(channel)] != 0;
        out[a] = zero ? 0.0 : static_cast<double>(w_(r, channel));
      }
    }
  });
}

void ChunkSweep::pass() {
  const std::int64_t n = plan_.cols;
  const std::int64_t padded = slabs() * kSlabRows;
  for (std::int64_t begin = 0; begin < n; begin += kBlockCols) {
    const std::int64_t end = std::min(n, begin + kBlockCols);
    pool_.for_each(slabs(), [&](std::int64_t slab) { sweep_slab(slab, begin, end); });
    if (end == n || plan_.factor.identity) continue;
    const ConstMatrixView<double> residual(residual_.data(), padded, end - begin, kBlockCols);
    const MatrixView<double> rest(work_.data() + end, padded, n - end, n);
    linalg::gemm_f64(linalg::Trans::kNo, linalg::Trans::kNo, -1.0, residual,
                     plan_.factor.u().block(begin, end, end - begin, n - end), 1.0, rest, pool_);
  }
}

void ChunkSweep::load_slab(std::int64_t slab, std::int64_t begin, std::int64_t end,
                           double* x) const {
  for (std::int64_t r = 0; r < kSlabRows; ++r) {
    const double* row = work_.data() + (slab * kSlabRows + r) * plan_.cols + begin;
    for (std::int64_t c = 0; c < end - begin; ++c) x[c * kSlabRows + r] = row[c];
  }
}

void ChunkSweep::sweep_slab(std::int64_t slab, std::int64_t begin, std::int64_t end) {
  alignas(64) std::array<double, kBlockCols * kSlabRows> x;
  alignas(64) std::array<double, kGroupCols * kSlabRows> error;
  alignas(64) std::array<double, kGroupCols * kSlabRows> scales;
  load_slab(slab, begin, end, x.data());
  const std::int64_t first_row = slab * kSlabRows;
  for (std::int64_t position = begin; position < end; position += kGroupCols) {
    const GroupFactor& group = plan_.groups[at(position / kGroupCols)];
    double* columns = x.data() + (position - begin) * kSlabRows;
    const auto rungs = slab_rungs(slab, position, columns);
    slab_scales(slab, position, rungs, scales.data());
    RoundArgs round{};
    round.x = columns;
    round.ratio = group.ratio.data();
    round.inverse = group.inverse.data();
    round.scales = scales.data();
    round.scale_stride = plan_.fixed_rungs ? kSlabRows : 0;
    round.four_bit = plan_.four_bit;
    round.codes = codes_.data() + (first_row * plan_.cols + position * kSlabRows);
    round.error = error.data();
    round.loss = loss_.data() + first_row;
    CORTIQ_SIMD_DISPATCH(pool_.simd(), round_group, round);
    store_rungs(slab, position, rungs);
    if (plan_.factor.identity) continue;
    for (std::int64_t r = 0; r < kSlabRows; ++r) {
      double* out = residual_.data() + (first_row + r) * kBlockCols + (position - begin);
      for (std::int64_t j = 0; j < kGroupCols; ++j) out[j] = error[at(j * kSlabRows + r)];
    }
    UpdateArgs update{};
    update.x = x.data();
    update.error = error.data();
    update.u = plan_.factor.u().row(position) + begin;
    update.u_stride = plan_.factor.u().stride();
    update.begin = static_cast<int>(position + kGroupCols - begin);
    update.end = static_cast<int>(end - begin);
    CORTIQ_SIMD_DISPATCH(pool_.simd(), update_columns, update);
  }
}

std::array<std::uint8_t, kSlabRows> ChunkSweep::slab_rungs(std::int64_t slab, std::int64_t position,
                                                           const double* x) const {
  if (plan_.fixed_rungs) return {};
  const std::int64_t first = slab * kSlabRows;
  const SlabLadders ladders{tables_.data() + first * codec::kRungs, lo_.data() + first,
                            step_.data() + first};
  return choose_rungs(plan_.search, plan_.four_bit, x, ladders,
                      plan_.groups[at(position / kGroupCols)], pool_.simd());
}

void ChunkSweep::slab_scales(std::int64_t slab, std::int64_t position,
                             std::span<const std::uint8_t, kSlabRows> rungs, double* scales) const {
  const std::int64_t columns = plan_.fixed_rungs ? kGroupCols : 1;
  for (std::int64_t j = 0; j < columns; ++j) {
    const std::int64_t group = plan_.factor.elimination[at(position + j)] / kGroupCols;
    for (std::int64_t r = 0; r < kSlabRows; ++r) {
      const std::int64_t row = slab * kSlabRows + r;
      const int chosen = plan_.fixed_rungs ? rung(row, group) : rungs[at(r)];
      const int stored = chosen == kNoRung ? 0 : chosen;
      scales[j * kSlabRows + r] = static_cast<double>(tables_[at(row * codec::kRungs + stored)]);
    }
  }
}

void ChunkSweep::store_rungs(std::int64_t slab, std::int64_t position,
                             std::span<const std::uint8_t, kSlabRows> rungs) {
  if (plan_.fixed_rungs) return;
  const std::int64_t group = plan_.factor.elimination[at(position)] / kGroupCols;
  for (std::int64_t r = 0; r < kSlabRows; ++r) rung(slab * kSlabRows + r, group) = rungs[at(r)];
}

}  // namespace cortiq::gptq
