// one_bit_polish.cpp: coordinate descent after the sweep of q1s and q1t (docs/quality.md,
// "polish"), with scales and overlay values as further coordinates. G = (Q - W) H_d is kept up to date as in
// chunk_polish.cpp.
#include <algorithm>
#include <array>
#include <cmath>

#include "cortiq/codec/ladder.hpp"
#include "cortiq/linalg/gemm.hpp"
#include "cortiq/support/half.hpp"
#include "one_bit_chunk.hpp"

namespace cortiq::gptq {

namespace {

constexpr std::int64_t kRowGrain = 4;
constexpr double kLargestHalf = 65504.0;

std::size_t at(std::int64_t i) { return static_cast<std::size_t>(i); }

/// One group of a row during a pass; gradient and change cover its 32 columns.
struct GroupState {
  ConstMatrixView<double> h;  ///< [32,32] of H_d
  const std::uint8_t* masked;
  std::int8_t* codes;
  double* overlay;
  double& scale;
  bool ternary;
  std::array<double, kGroupCols> gradient;
  std::array<double, kGroupCols> change{};  ///< new minus old values
};

/// Moves value j and its gradient.
void move(GroupState& s, std::int64_t j, double step) {
  s.change[at(j)] += step;
  for (std::int64_t k = 0; k < kGroupCols; ++k) s.gradient[at(k)] += step * s.h(j, k);
}

/// Change of the loss by a step along coordinate j.
double loss_change(const GroupState& s, std::int64_t j, double step) {
  return step * (2.0 * s.gradient[at(j)] + step * s.h(j, j));
}

void polish_scale(GroupState& s) {
  std::array<double, kGroupCols> code{};
  for (std::int64_t j = 0; j < kGroupCols; ++j)
    code[at(j)] = s.masked[j] != 0 ? 0.0 : static_cast<double>(s.codes[j]);
  double slope = 0;
  double curvature = 0;
  for (std::int64_t j = 0; j < kGroupCols; ++j) {
    slope += code[at(j)] * s.gradient[at(j)];
    double row = 0;
    for (std::int64_t k = 0; k < kGroupCols; ++k) row += s.h(j, k) * code[at(k)];
    curvature += code[at(j)] * row;
  }
  if (!(curvature > 0)) return;
  const double wanted = std::clamp(s.scale - slope / curvature, 0.0, kLargestHalf);
  const double scale = static_cast<double>(codec::f16_scale(static_cast<float>(wanted)));
  const double step = scale - s.scale;
  if (!(step * (2.0 * slope + step * curvature) < 0)) return;
  s.scale = scale;
  for (std::int64_t j = 0; j < kGroupCols; ++j) {
    if (code[at(j)] != 0) move(s, j, step * code[at(j)]);
  }
}

/// `value`: what the weight has now, `target`: where the loss is least.
void polish_code(GroupState& s, std::int64_t j, double target) {
  const bool live = !s.ternary || std::fabs(target) >= 0.5 * s.scale;
  const int code = !live ? 0 : target >= 0 ? 1 : -1;
  const double step = (code - s.codes[j]) * s.scale;
  if (!(loss_change(s, j, step) < 0)) return;
  s.codes[j] = static_cast<std::int8_t>(code);
  move(s, j, step);
}

void polish_overlay(GroupState& s, std::int64_t j, double target) {
  const auto bounded = static_cast<float>(std::clamp(target, -kLargestHalf, kLargestHalf));
  const double value = static_cast<double>(f16_to_f32(f32_to_f16(bounded)));
  const double step = value - s.overlay[j];
  if (!(loss_change(s, j, step) < 0)) return;
  s.overlay[j] = value;
  move(s, j, step);
}

void polish_group(GroupState& s) {
  polish_scale(s);
  for (std::int64_t j = 0; j < kGroupCols; ++j) {
    const bool masked = s.masked[j] != 0;
    const double value = masked ? s.overlay[j] : s.codes[j] * s.scale;
    const double target = value - s.gradient[at(j)] / s.h(j, j);
    masked ? polish_overlay(s, j, target) : polish_code(s, j, target);
  }
}

}  // namespace

void OneBitChunk::polish(int passes) {
  if (passes <= 0) return;
  CORTIQ_ASSERT(plan_.factor.has_damped_h());
  const std::int64_t n = plan_.cols;
  const ConstMatrixView<double> h = plan_.factor.damped_h();
  {
    Values error(work_.size());
    fill_error(error);
    product(error, work_);
  }
  for (int pass = 0; pass < passes; ++pass) {
    for (std::int64_t begin = 0; begin < n; begin += kBlockCols) {
      const std::int64_t end = std::min(n, begin + kBlockCols);
      pool_.for_ranges(rows_, kRowGrain, [&](std::int64_t first, std::int64_t last) {
        for (std::int64_t r = first; r < last; ++r) polish_row(r, begin, end);
      });
      // The last pass needs the gradient only where it has not been yet.
      const std::int64_t first = pass + 1 == passes ? end : 0;
      if (first == n) continue;
      linalg::gemm_f64(linalg::Trans::kNo, linalg::Trans::kNo, 1.0,
                       ConstMatrixView<double>(residual_.data(), rows_, end - begin, kBlockCols),
                       h.block(begin, first, end - begin, n - first), 1.0,
                       MatrixView<double>(work_.data() + first, rows_, n - first, n), pool_);
    }
  }
}

void OneBitChunk::polish_row(std::int64_t r, std::int64_t begin, std::int64_t end) {
  const ConstMatrixView<double> h = plan_.factor.damped_h();
  // A copy: the product behind the block brings the changes to work_ itself.
  std::array<double, kBlockCols> gradient{};
  std::copy_n(work_.data() + place(r, begin), end - begin, gradient.begin());
  for (std::int64_t position = begin; position < end; position += kGroupCols) {
    GroupState state{h.block(position, position, kGroupCols, kGroupCols),
                     masked_.data() + place(r, position),
                     codes_.data() + place(r, position),
                     overlay_.data() + place(r, position),
                     scales_[scale_place(r, position)],
                     ternary(),
                     {}};
    std::copy_n(gradient.data() + (position - begin), kGroupCols, state.gradient.begin());
    polish_group(state);
    std::copy(state.change.begin(), state.change.end(),
              residual_.data() + r * kBlockCols + (position - begin));
    for (std::int64_t j = 0; j < kGroupCols; ++j) {
      const double step = state.change[at(j)];
      if (step == 0) continue;
      const double* row = h.row(position + j);
      for (std::int64_t c = position + kGroupCols; c < end; ++c)
        gradient[at(c - begin)] += step * row[c];
    }
  }
}

}  // namespace cortiq::gptq
