#include "one_bit_chunk.hpp"

#include <algorithm>
#include <cmath>

#include "cortiq/codec/ladder.hpp"
#include "cortiq/linalg/gemm.hpp"
#include "cortiq/support/half.hpp"

namespace cortiq::gptq {

namespace {

constexpr std::int64_t kRowGrain = 4;
constexpr double kLeastFactor = 0.5;  // gptq.md section 8.2
constexpr double kMostFactor = 2.0;

std::size_t at(std::int64_t i) { return static_cast<std::size_t>(i); }

double as_half(double x) {
  return static_cast<double>(f16_to_f32(f32_to_f16(static_cast<float>(x))));
}

}  // namespace

OneBitChunk::OneBitChunk(const SweepPlan& plan, ConstMatrixView<float> w, std::int64_t first_row,
                         std::int64_t rows, const OverlayMask& mask, Pool& pool)
    : plan_(plan),
      w_(w),
      first_row_(first_row),
      rows_(rows),
      pool_(pool),
      work_(at(rows * plan.cols), 0.0),
      overlay_(at(rows * plan.cols), 0.0),
      residual_(at(rows * kBlockCols), 0.0),
      scales_(at(rows * (plan.cols / kGroupCols)), 0.0),
      codes_(at(rows * plan.cols), 0),
      masked_(at(rows * plan.cols), 0) {
  fill(mask);
}

void OneBitChunk::fill(const OverlayMask& mask) {
  pool_.for_ranges(rows_, kRowGrain, [&](std::int64_t begin, std::int64_t end) {
    for (std::int64_t r = begin; r < end; ++r) {
      const float* row = w_.row(first_row_ + r);
      for (std::int64_t a = 0; a < plan_.cols; ++a)
        work_[place(r, a)] = static_cast<double>(row[plan_.factor.elimination[at(a)]]);
      for (const std::uint32_t c : mask.row(first_row_ + r)) {
        const std::size_t to = place(r, plan_.position_of[c]);
        masked_[to] = 1;
        overlay_[to] = as_half(static_cast<double>(row[c]));
      }
    }
  });
}

OneBitGroup OneBitChunk::group(std::int64_t r, std::int64_t position, const double* x) const {
  return {x, masked_.data() + place(r, position), overlay_.data() + place(r, position),
          plan_.groups[at(position / kGroupCols)], ternary()};
}

void OneBitChunk::run() {
  const std::int64_t n = plan_.cols;
  for (std::int64_t begin = 0; begin < n; begin += kBlockCols) {
    const std::int64_t end = std::min(n, begin + kBlockCols);
    pool_.for_ranges(rows_, kRowGrain, [&](std::int64_t first, std::int64_t last) {
      for (std::int64_t r = first; r < last; ++r) sweep_row(r, begin, end);
    });
    if (end == n) continue;
    linalg::gemm_f64(linalg::Trans::kNo, linalg::Trans::kNo, -1.0,
                     ConstMatrixView<double>(residual_.data(), rows_, end - begin, kBlockCols),
                     plan_.factor.u().block(begin, end, end - begin, n - end), 1.0,
                     MatrixView<double>(work_.data() + end, rows_, n - end, n), pool_);
  }
}

void OneBitChunk::sweep_row(std::int64_t r, std::int64_t begin, std::int64_t end) {
  double* x = work_.data() + place(r, 0);
  for (std::int64_t position = begin; position < end; position += kGroupCols) {
    const OneBitGroup g = group(r, position, x + position);
    const OneBitLevels levels =
        plan_.options.rung == Rung::kDiag ? closed_form_levels(g) : simulated_levels(g);
    double* error = residual_.data() + r * kBlockCols + (position - begin);
    round_group(g, levels, codes_.data() + place(r, position), error);
    scales_[scale_place(r, position)] = levels.scale;
    for (std::int64_t j = 0; j < kGroupCols; ++j) {
      const double* u = plan_.factor.u().row(position + j);
      for (std::int64_t c = position + kGroupCols; c < end; ++c) x[c] -= error[j] * u[c];
    }
  }
}

void OneBitChunk::fill_base(Values& out) const {
  pool_.for_ranges(rows_, kRowGrain, [&](std::int64_t begin, std::int64_t end) {
    for (std::int64_t r = begin; r < end; ++r) {
      for (std::int64_t a = 0; a < plan_.cols; ++a) {
        const std::size_t i = place(r, a);
        out[i] = masked_[i] != 0 ? 0.0 : codes_[i] * scales_[scale_place(r, a)];
      }
    }
  });
}

void OneBitChunk::fill_error(Values& out) const {
  fill_base(out);
  pool_.for_ranges(rows_, kRowGrain, [&](std::int64_t begin, std::int64_t end) {
    for (std::int64_t r = begin; r < end; ++r) {
      const float* row = w_.row(first_row_ + r);
      for (std::int64_t a = 0; a < plan_.cols; ++a) {
        const std::size_t i = place(r, a);
        const double q = masked_[i] != 0 ? overlay_[i] : out[i];
        out[i] = q - static_cast<double>(row[plan_.factor.elimination[at(a)]]);
      }
    }
  });
}

void OneBitChunk::product(const Values& x, Values& out) const {
  linalg::gemm_f64(linalg::Trans::kNo, linalg::Trans::kNo, 1.0,
                   ConstMatrixView<double>(x.data(), rows_, plan_.cols), plan_.factor.damped_h(),
                   0.0, MatrixView<double>(out.data(), rows_, plan_.cols), pool_);
}

void OneBitChunk::rescale_rows() {
  CORTIQ_ASSERT(plan_.factor.has_damped_h());
  Values base(work_.size());
  Values error(work_.size());
  fill_base(base);
  fill_error(error);
  product(base, work_);
  const std::int64_t groups = plan_.cols / kGroupCols;
  pool_.for_ranges(rows_, kRowGrain, [&](std::int64_t begin, std::int64_t end) {
    for (std::int64_t r = begin; r < end; ++r) {
      double slope = 0;
      double energy = 0;
      for (std::int64_t a = 0; a < plan_.cols; ++a) {
        slope += work_[place(r, a)] * error[place(r, a)];
        energy += work_[place(r, a)] * base[place(r, a)];
      }
      if (!(energy > 0)) continue;
      const double factor = std::clamp(1.0 - slope / energy, kLeastFactor, kMostFactor);
      for (std::int64_t g = 0; g < groups; ++g) {
        double& scale = scales_[at(r * groups + g)];
        scale = static_cast<double>(codec::f16_scale(static_cast<float>(scale * factor)));
      }
    }
  });
}

void OneBitChunk::store(OneBitCodes& out) const {
  const std::vector<std::int64_t>& channels = plan_.factor.elimination;
  pool_.for_ranges(rows_, kRowGrain, [&](std::int64_t begin, std::int64_t end) {
    for (std::int64_t r = begin; r < end; ++r) {
      const std::int64_t row = first_row_ + r;
      std::int8_t* codes = out.codes.data() + row * plan_.cols;
      for (std::int64_t a = 0; a < plan_.cols; ++a) codes[channels[at(a)]] = codes_[place(r, a)];
      for (std::int64_t a = 0; a < plan_.cols; a += kGroupCols) {
        const std::int64_t group = channels[at(a)] / kGroupCols;
        out.scales[at(row * (plan_.cols / kGroupCols) + group)] =
            f32_to_f16(static_cast<float>(scales_[scale_place(r, a)]));
      }
      std::size_t entry = out.mask.row_begin[at(row)];
      for (const std::uint32_t c : out.mask.row(row)) {
        const double value = overlay_[place(r, plan_.position_of[c])];
        out.overlay[entry++] = f32_to_f16(static_cast<float>(value));
      }
    }
  });
}

}  // namespace cortiq::gptq
