// chunk_polish.cpp: coordinate descent after the sweep of a chunk (docs/quality.md, "polish"). G =
// (Q - W) H_d is kept up to date: inside a block of 128 columns by the kernel, behind it by one
// product per block.
#include <algorithm>
#include <array>

#include "chunk_sweep.hpp"
#include "cortiq/linalg/gemm.hpp"

namespace cortiq::gptq {

namespace {

constexpr std::int64_t kRowGrain = 8;

std::size_t at(std::int64_t i) { return static_cast<std::size_t>(i); }

}  // namespace

/// Q in elimination order.
void ChunkSweep::fill_quantized(std::vector<double>& rows) const {
  const double offset = plan_.four_bit ? 8.0 : 1.5;
  pool_.for_ranges(rows_, kRowGrain, [&](std::int64_t begin, std::int64_t end) {
    for (std::int64_t r = begin; r < end; ++r) {
      const std::uint8_t* codes =
          codes_.data() + r / kSlabRows * kSlabRows * plan_.cols + r % kSlabRows;
      for (std::int64_t a = 0; a < plan_.cols; ++a) {
        const std::uint8_t chosen = rung(r, plan_.factor.elimination[at(a)] / kGroupCols);
        const int stored = chosen == kNoRung ? 0 : chosen;
        const double scale = static_cast<double>(tables_[at(r * codec::kRungs + stored)]);
        rows[at(r * plan_.cols + a)] = (static_cast<double>(codes[a * kSlabRows]) - offset) * scale;
      }
    }
  });
}

/// Q - W in elimination order; dead channels count as zero weights, as in the sweep.
void ChunkSweep::fill_error(std::vector<double>& error) const {
  fill_quantized(error);
  pool_.for_ranges(rows_, kRowGrain, [&](std::int64_t begin, std::int64_t end) {
    for (std::int64_t r = begin; r < end; ++r) {
      for (std::int64_t a = 0; a < plan_.cols; ++a) {
        const std::int64_t channel = plan_.factor.elimination[at(a)];
        const bool zero = plan_.zero_dead && plan_.factor.dead[at(channel)] != 0;
        if (!zero) error[at(r * plan_.cols + a)] -= static_cast<double>(w_(r, channel));
      }
    }
  });
}

void ChunkSweep::multiply_damped(const std::vector<double>& rows, std::vector<double>& out) const {
  const std::int64_t n = plan_.cols;
  const std::int64_t padded = slabs() * kSlabRows;
  linalg::gemm_f64(linalg::Trans::kNo, linalg::Trans::kNo, 1.0,
                   ConstMatrixView<double>(rows.data(), padded, n), plan_.factor.damped_h(), 0.0,
                   MatrixView<double>(out.data(), padded, n), pool_);
}

void ChunkSweep::polish(int passes) {
  if (passes <= 0 || !plan_.polishes) return;
  CORTIQ_ASSERT(plan_.factor.has_damped_h());
  {
    std::vector<double> error(at(slabs() * kSlabRows * plan_.cols), 0.0);
    fill_error(error);
    multiply_damped(error, work_);
  }
  for (int pass = 0; pass < passes; ++pass) {
    const bool scales_follow = plan_.options.row_scale && pass == 0;
    if (!plan_.blocks.empty()) move_pass(Move::kGroups, true);
    move_pass(Move::kCodes, scales_follow || pass + 1 < passes);
    if (scales_follow) fit_row_scales();
  }
}

void ChunkSweep::move_pass(Move move, bool more_follow) {
  const std::int64_t n = plan_.cols;
  const std::int64_t padded = slabs() * kSlabRows;
  const ConstMatrixView<double> h = plan_.factor.damped_h();
  for (std::int64_t begin = 0; begin < n; begin += kBlockCols) {
    const std::int64_t end = std::min(n, begin + kBlockCols);
    pool_.for_each(slabs(), [&](std::int64_t slab) { move_slab(move, slab, begin, end); });
    // The last pass needs the gradient only where it has not been yet.
    const std::int64_t first = more_follow ? 0 : end;
    if (first == n) continue;
    linalg::gemm_f64(linalg::Trans::kNo, linalg::Trans::kNo, -1.0,
                     ConstMatrixView<double>(residual_.data(), padded, end - begin, kBlockCols),
                     h.block(begin, first, end - begin, n - first), 1.0,
                     MatrixView<double>(work_.data() + first, padded, n - first, n), pool_);
  }
}

void ChunkSweep::move_slab(Move move, std::int64_t slab, std::int64_t begin, std::int64_t end) {
  alignas(64) std::array<double, kBlockCols * kSlabRows> gradient;
  GroupLanes change;
  const ConstMatrixView<double> h = plan_.factor.damped_h();
  load_slab(slab, begin, end, gradient.data());
  const std::int64_t first_row = slab * kSlabRows;
  for (std::int64_t position = begin; position < end; position += kGroupCols) {
    const double* own = gradient.data() + (position - begin) * kSlabRows;
    move == Move::kGroups ? move_groups(slab, position, own, change)
                          : move_codes(slab, position, own, change);
    for (std::int64_t r = 0; r < kSlabRows; ++r) {
      double* out = residual_.data() + (first_row + r) * kBlockCols + (position - begin);
      for (std::int64_t j = 0; j < kGroupCols; ++j) out[j] = change.values[at(j * kSlabRows + r)];
    }
    UpdateArgs update{};
    update.x = gradient.data();
    update.error = change.values.data();
    update.u = h.row(position) + begin;
    update.u_stride = h.stride();
    update.begin = static_cast<int>(position + kGroupCols - begin);
    update.end = static_cast<int>(end - begin);
    CORTIQ_SIMD_DISPATCH(pool_.simd(), update_columns, update);
  }
}

std::array<double, kSlabRows> ChunkSweep::chosen_scales(std::int64_t slab,
                                                        std::int64_t position) const {
  const std::int64_t group = plan_.factor.elimination[at(position)] / kGroupCols;
  std::array<double, kSlabRows> scales{};
  for (std::int64_t r = 0; r < kSlabRows; ++r) {
    const std::int64_t row = slab * kSlabRows + r;
    const std::uint8_t chosen = rung(row, group);
    if (chosen != kNoRung)
      scales[at(r)] = static_cast<double>(tables_[at(row * codec::kRungs + chosen)]);
  }
  return scales;
}

void ChunkSweep::move_codes(std::int64_t slab, std::int64_t position, const double* gradient,
                            GroupLanes& change) {
  GroupLanes levels;
  const ConstMatrixView<double> h = plan_.factor.damped_h();
  const std::int64_t first_row = slab * kSlabRows;
  std::uint8_t* codes = codes_.data() + (first_row * plan_.cols + position * kSlabRows);
  std::array<double, kGroupCols> inverse{};
  for (std::int64_t j = 0; j < kGroupCols; ++j)
    inverse[at(j)] = 1.0 / h(position + j, position + j);
  alignas(64) const std::array<double, kSlabRows> scales = chosen_scales(slab, position);
  std::copy(codes, codes + kGroupCols * kSlabRows, levels.values.begin());
  PolishArgs args{};
  args.gradient = gradient;
  args.h = h.row(position) + position;
  args.h_stride = h.stride();
  args.inverse = inverse.data();
  args.scales = scales.data();
  args.four_bit = plan_.four_bit;
  args.levels = levels.values.data();
  args.change = change.values.data();
  args.loss = loss_.data() + first_row;
  CORTIQ_SIMD_DISPATCH(pool_.simd(), polish_group, args);
  for (std::size_t i = 0; i < levels.values.size(); ++i)
    codes[i] = static_cast<std::uint8_t>(levels.values[i]);
}

}  // namespace cortiq::gptq
