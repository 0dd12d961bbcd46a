#include "rung_choice.hpp"

#include <algorithm>
#include <cmath>
#include <limits>

namespace cortiq::gptq {

namespace {

constexpr int kTopRung = 31;
constexpr int kCoarseStride = 3;
constexpr int kMaxCandidates = 32;
constexpr int kWindowBelow = 2;
constexpr int kWindowAbove = 1;

using Losses = std::array<float, kMaxCandidates * kSlabRows>;
using Candidates = std::array<std::uint8_t, kMaxCandidates * kSlabRows>;
using Lanes = std::array<double, kSlabRows>;

/// The search of one group for one slab.
class Search {
 public:
  Search(RungSearch kind, bool four_bit, const double* x, const SlabLadders& ladders,
         const GroupFactor& group, SimdLevel simd)
      : simulated_(kind == RungSearch::kSimulated || kind == RungSearch::kSimulatedFull),
        four_bit_(four_bit),
        bottom_(four_bit ? 0 : 1),
        ladders_(ladders),
        group_(group),
        simd_(simd) {
    CORTIQ_SIMD_DISPATCH(simd_, slab_absmax, x, absmax_.data());
    for (int r = 0; r < kSlabRows; ++r) {
      const auto sr = static_cast<std::size_t>(r);
      int exponent = 0;
      if (absmax_[sr] > 0 && std::isfinite(absmax_[sr])) std::frexp(absmax_[sr], &exponent);
      factor_[sr] = std::ldexp(
          1.0, -exponent);  // a power of two: f32 sees the same digits, at a harmless size
    }
    CORTIQ_SIMD_DISPATCH(simd_, narrow_slab, x, factor_.data(), x32_.data());
    best_loss_.fill(std::numeric_limits<float>::infinity());
    best_.fill(kNoRung);
  }

  void try_window() {
    std::array<int, kSlabRows> nominal{};
    for (int r = 0; r < kSlabRows; ++r) nominal[static_cast<std::size_t>(r)] = nominal_rung(r);
    count_ = 0;
    for (int offset = -kWindowBelow; offset <= kWindowAbove; ++offset) add(nominal, offset);
    evaluate();
  }

  void try_every(int stride) {
    count_ = 0;
    for (int rung = bottom_; rung <= kTopRung; rung += stride) {
      std::array<int, kSlabRows> same{};
      same.fill(rung);
      add(same, 0);
    }
    evaluate();
  }

  void try_neighbours() {
    std::array<int, kSlabRows> centre{};
    for (std::size_t r = 0; r < kSlabRows; ++r)
      centre[r] = best_[r] == kNoRung ? -kTopRung : best_[r];
    count_ = 0;
    for (const int offset : {-2, -1, 1, 2}) add(centre, offset);
    evaluate();
  }

  std::array<std::uint8_t, kSlabRows> result() const {
    std::array<std::uint8_t, kSlabRows> rungs{};
    for (int r = 0; r < kSlabRows; ++r) {
      const auto sr = static_cast<std::size_t>(r);
      if (!(absmax_[sr] > 0)) {
        rungs[sr] = kNoRung;
      } else {
        rungs[sr] = best_[sr] != kNoRung ? best_[sr] : static_cast<std::uint8_t>(nominal_rung(r));
      }
    }
    return rungs;
  }

 private:
  /// gptq.md section 4 (half away from zero) and section 6 (half to even, rungs from 1).
  int nominal_rung(int r) const {
    const auto sr = static_cast<std::size_t>(r);
    const double step = static_cast<double>(ladders_.step[r]);
    if (!(absmax_[sr] > 0) || !(step > 0)) return bottom_;
    const double full_scale = four_bit_ ? 7.0 : 1.5;
    const double position =
        (std::log2(absmax_[sr] / full_scale) - static_cast<double>(ladders_.lo[r])) / step;
    const double top = static_cast<double>(kTopRung - bottom_);
    const double rounded = four_bit_ ? std::round(position) : std::nearbyint(position);
    return bottom_ + static_cast<int>(std::clamp(rounded, 0.0, top));
  }

  /// Adds candidate rung[r] + offset for each row; rows where it leaves the ladder get none.
  void add(const std::array<int, kSlabRows>& rung, int offset) {
    const std::size_t base = static_cast<std::size_t>(count_) * kSlabRows;
    for (std::size_t r = 0; r < kSlabRows; ++r) {
      const int candidate = rung[r] + offset;
      const bool on_ladder = candidate >= bottom_ && candidate <= kTopRung;
      candidates_[base + r] = on_ladder ? static_cast<std::uint8_t>(candidate) : kNoRung;
      const float scale = on_ladder ? ladders_.table[static_cast<int>(r) * 32 + candidate] : 0.0F;
      scales_[base + r] = static_cast<float>(static_cast<double>(scale) * factor_[r]);
    }
    ++count_;
  }

  void evaluate() {
    SearchArgs args{};
    args.x = x32_.data();
    args.ratio = group_.ratio32.data();
    args.weight = simulated_ ? group_.loss_weight.data() : group_.diagonal_weight.data();
    args.scales = scales_.data();
    args.loss = losses_.data();
    args.candidates = count_;
    args.four_bit = four_bit_;
    args.feedback = simulated_;
    CORTIQ_SIMD_DISPATCH(simd_, search_losses, args);
    const std::size_t total = static_cast<std::size_t>(count_) * kSlabRows;
    for (std::size_t i = 0; i < total; ++i) {
      const std::size_t r = i % kSlabRows;
      if (candidates_[i] == kNoRung || !(scales_[i] > 0.0F)) continue;
      const bool tie_lower =
          losses_[i] == best_loss_[r] && best_[r] != kNoRung && candidates_[i] < best_[r];
      if (!(losses_[i] < best_loss_[r]) && !tie_lower) continue;
      best_loss_[r] = losses_[i];
      best_[r] = candidates_[i];
    }
  }

  bool simulated_;
  bool four_bit_;
  int bottom_;  ///< lowest rung that holds a scale
  const SlabLadders& ladders_;
  const GroupFactor& group_;
  SimdLevel simd_;
  int count_ = 0;
  Lanes absmax_{};
  Lanes factor_{};
  alignas(64) std::array<float, kGroupCols * kSlabRows> x32_;
  alignas(64) Losses scales_;
  alignas(64) Losses losses_;
  Candidates candidates_;
  std::array<float, kSlabRows> best_loss_{};
  std::array<std::uint8_t, kSlabRows> best_{};
};

}  // namespace

std::array<std::uint8_t, kSlabRows> choose_rungs(RungSearch kind, bool four_bit, const double* x,
                                                 const SlabLadders& ladders,
                                                 const GroupFactor& group, SimdLevel simd) {
  Search search(kind, four_bit, x, ladders, group, simd);
  switch (kind) {
    case RungSearch::kWindow:
      search.try_window();
      break;
    case RungSearch::kFull:
    case RungSearch::kSimulatedFull:
      search.try_every(1);
      break;
    case RungSearch::kSimulated:
      search.try_every(kCoarseStride);
      search.try_neighbours();
      break;
  }
  return search.result();
}

}  // namespace cortiq::gptq
