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

/// Q - W in elimination order; dead channels count as zero weights, as in the sweep.
void ChunkSweep::fill_error(std::vector<double>& error) const {
  const double offset = plan_.four_bit ? 8.0 : 1.5;
  pool_.for_ranges(rows_, kRowGrain, [&](std::int64_t begin, std::int64_t end) {
    for (std::int64_t r = begin; r < end; ++r) {
      const std::uint8_t* codes =
          codes_.data() + r / kSlabRows * kSlabRows * plan_.cols + r % kSlabRows;
      for (std::int64_t a = 0; a < plan_.cols; ++a) {
        const std::int64_t channel = plan_.factor.elimination[at(a)];
        const std::uint8_t chosen = rung(r, channel / kGroupCols);
        const int stored = chosen == kNoRung ? 0 : chosen;
        const double scale = static_cast<double>(tables_[at(r * codec::kRungs + stored)]);
        const bool zero = plan_.zero_dead && plan_.factor.dead[at(channel)] != 0;
        const double weight = zero ? 0.0 : static_cast<double>(w_(r, channel));
        error[at(r * plan_.cols + a)] =
            (static_cast<double>(codes[a * kSlabRows]) - offset) * scale - weight;
      }
    }
  });
}

void ChunkSweep::polish(int passes) {
  if (passes <= 0 || plan_.factor.identity || plan_.fixed_rungs) return;
  CORTIQ_ASSERT(plan_.factor.has_damped_h());
  const std::int64_t n = plan_.cols;
  const std::int64_t padded = slabs() * kSlabRows;
  const ConstMatrixView<double> h = plan_.factor.damped_h();
  {
    std::vector<double> error(at(padded * n), 0.0);
    fill_error(error);
    linalg::gemm_f64(linalg::Trans::kNo, linalg::Trans::kNo, 1.0,
                     ConstMatrixView<double>(error.data(), padded, n), h, 0.0,
                     MatrixView<double>(work_.data(), padded, n), pool_);
  }
  for (int pass = 0; pass < passes; ++pass) {
    for (std::int64_t begin = 0; begin < n; begin += kBlockCols) {
      const std::int64_t end = std::min(n, begin + kBlockCols);
      pool_.for_each(slabs(), [&](std::int64_t slab) { polish_slab(slab, begin, end); });
      // The last pass needs the gradient only where it has not been yet.
      const std::int64_t first = pass + 1 == passes ? end : 0;
      if (first == n) continue;
      linalg::gemm_f64(linalg::Trans::kNo, linalg::Trans::kNo, -1.0,
                       ConstMatrixView<double>(residual_.data(), padded, end - begin, kBlockCols),
                       h.block(begin, first, end - begin, n - first), 1.0,
                       MatrixView<double>(work_.data() + first, padded, n - first, n), pool_);
    }
  }
}

void ChunkSweep::polish_slab(std::int64_t slab, std::int64_t begin, std::int64_t end) {
  alignas(64) std::array<double, kBlockCols * kSlabRows> gradient;
  alignas(64) std::array<double, kGroupCols * kSlabRows> levels;
  alignas(64) std::array<double, kGroupCols * kSlabRows> change;
  alignas(64) std::array<double, kSlabRows> scales;
  const ConstMatrixView<double> h = plan_.factor.damped_h();
  load_slab(slab, begin, end, gradient.data());
  const std::int64_t first_row = slab * kSlabRows;
  for (std::int64_t position = begin; position < end; position += kGroupCols) {
    std::uint8_t* codes = codes_.data() + (first_row * plan_.cols + position * kSlabRows);
    const std::int64_t group = plan_.factor.elimination[at(position)] / kGroupCols;
    std::array<double, kGroupCols> inverse{};
    for (std::int64_t j = 0; j < kGroupCols; ++j)
      inverse[at(j)] = 1.0 / h(position + j, position + j);
    for (std::int64_t r = 0; r < kSlabRows; ++r) {
      const std::uint8_t chosen = rung(first_row + r, group);
      scales[at(r)] =
          chosen == kNoRung
              ? 0.0
              : static_cast<double>(tables_[at((first_row + r) * codec::kRungs + chosen)]);
    }
    std::copy(codes, codes + kGroupCols * kSlabRows, levels.begin());
    PolishArgs args{};
    args.gradient = gradient.data() + (position - begin) * kSlabRows;
    args.h = h.row(position) + position;
    args.h_stride = h.stride();
    args.inverse = inverse.data();
    args.scales = scales.data();
    args.four_bit = plan_.four_bit;
    args.levels = levels.data();
    args.change = change.data();
    args.loss = loss_.data() + first_row;
    CORTIQ_SIMD_DISPATCH(pool_.simd(), polish_group, args);
    for (std::size_t i = 0; i < levels.size(); ++i) codes[i] = static_cast<std::uint8_t>(levels[i]);
    for (std::int64_t r = 0; r < kSlabRows; ++r) {
      double* out = residual_.data() + (first_row + r) * kBlockCols + (position - begin);
      for (std::int64_t j = 0; j < kGroupCols; ++j) out[j] = change[at(j * kSlabRows + r)];
    }
    UpdateArgs update{};
    update.x = gradient.data();
    update.error = change.data();
    update.u = h.row(position) + begin;
    update.u_stride = h.stride();
    update.begin = static_cast<int>(position + kGroupCols - begin);
    update.end = static_cast<int>(end - begin);
    CORTIQ_SIMD_DISPATCH(pool_.simd(), update_columns, update);
  }
}

}  // namespace cortiq::gptq
