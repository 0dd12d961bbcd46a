// q2tp: ladder and rungs of a row, by placement (v2) and from the largest magnitudes (v1)
// (codecs.md section 4).
#include <algorithm>
#include <array>
#include <cmath>
#include <limits>
#include <vector>

#include "cortiq/codec/ladder.hpp"
#include "cortiq/support/error.hpp"
#include "scalar_math.hpp"

namespace cortiq::codec {

namespace {

constexpr float kInf = std::numeric_limits<float>::infinity();
constexpr std::array<float, 4> kTopShares = {1.0F, 0.9F, 0.8F, 0.7F};

float group_error(const float* w, const float* hw, float s) noexcept {
  const float inv = 1.0F / s;
  std::array<float, 8> acc{};
  for (std::size_t i = 0; i < 32; ++i) {
    const float q = std::nearbyint(std::clamp(w[i] * inv + 1.5F, 0.0F, 3.0F));
    const float d = w[i] - (q - 1.5F) * s;
    acc[i % 8] = acc[i % 8] + (hw[i] * d) * d;
  }
  return ((acc[0] + acc[1]) + (acc[2] + acc[3])) + ((acc[4] + acc[5]) + (acc[6] + acc[7]));
}

float tile_error(const float* w, float s) noexcept {
  const float inv = 1.0F / s;
  float error = 0.0F;
  for (int i = 0; i < kGroup; ++i) {
    const float q = std::nearbyint(std::clamp(w[i] * inv + 1.5F, 0.0F, 3.0F));
    const float d = w[i] - (q - 1.5F) * s;
    error = error + d * d;
  }
  return error;
}

struct Range {
  float lo = kInf;
  float hi = -kInf;
  void add(float lg) noexcept {
    lo = std::fmin(lo, lg);
    hi = std::fmax(hi, lg);
  }
  void close() noexcept {
    if (hi < lo) lo = hi = det_log2(kTiny);
  }
};

/// One row of the v1 encoder: log2 scales of the tiles, and the search of the ladder's top.
class V1Row {
 public:
  explicit V1Row(std::span<const float> row)
      : row_(row), logs_(row.size() / kGroup), dead_(logs_.size()) {
    for (std::size_t g = 0; g < logs_.size(); ++g) {
      const float a = abs_max(tile(g), kGroup);
      dead_[g] = a == 0.0F;
      logs_[g] = det_log2(f16_scale(a / 1.5F));
      if (!dead_[g]) range_.add(logs_[g]);
    }
    range_.close();
    lo_ = f32_to_f16(range_.lo);
  }

  [[nodiscard]] LadderParams params(bool search) const noexcept {
    const float low = f16_to_f32(lo_);
    LadderParams best = make(range_.hi);
    if (!search || !(range_.hi > low)) return best;
    float best_error = kInf;
    for (const float share : kTopShares) {
      const LadderParams candidate = make(low + (range_.hi - low) * share);
      const float error = probe(candidate);
      if (error < best_error) {
        best_error = error;
        best = candidate;
      }
    }
    return best;
  }

  void choose(LadderParams params, bool search, std::span<std::uint8_t> rungs) const noexcept {
    const Ladder ladder = q2tp_ladder(params);
    for (std::size_t g = 0; g < logs_.size(); ++g) {
      int rung = dead_[g] ? 0 : nominal(g, params);
      if (search && rung != 0) rung = best_rung(g, ladder, rung, 1).rung;
      rungs[g] = static_cast<std::uint8_t>(rung);
    }
  }

 private:
  struct Choice {
    float error;
    int rung;
  };

  [[nodiscard]] const float* tile(std::size_t g) const noexcept { return row_.data() + g * kGroup; }
  [[nodiscard]] LadderParams make(float top) const noexcept {
    return {lo_, covering_step(lo_, top, kRungs - 2)};
  }
  [[nodiscard]] int nominal(std::size_t g, LadderParams params) const noexcept {
    const float step = f16_to_f32(params.step);
    if (!(step > 0.0F)) return 1;
    return 1 + round_clamp((logs_[g] - f16_to_f32(params.lo)) / step, 0.0F, 30.0F);
  }
  [[nodiscard]] Choice best_rung(std::size_t g, const Ladder& ladder, int nominal,
                                 int above) const noexcept {
    Choice best{kInf, nominal};
    for (int c = std::max(nominal - 2, 1); c <= std::min(nominal + above, kRungs - 1); ++c) {
      const float s = ladder[static_cast<std::size_t>(c)];
      if (!(s > 0.0F)) continue;
      const float error = tile_error(tile(g), s);
      if (error < best.error) best = {error, c};
    }
    return best;
  }
  [[nodiscard]] float probe(LadderParams params) const noexcept {
    const Ladder ladder = q2tp_ladder(params);
    float error = 0.0F;
    for (std::size_t g = 0; g < logs_.size(); ++g) {
      if (!dead_[g]) error = error + best_rung(g, ladder, nominal(g, params), 2).error;
    }
    return error;
  }

  std::span<const float> row_;
  std::vector<float> logs_;
  std::vector<bool> dead_;
  Range range_;
  std::uint16_t lo_ = 0;
};

float best_scale(const float* w, const float* hw, float a) noexcept {
  const float base = a / 1.5F;
  float best_error = kInf;
  float best = base;
  for (int k = 0; k <= 30; ++k) {
    const float s = base * static_cast<float>(static_cast<double>(300 + 25 * k) / 1000.0);
    if (!(s > 0.0F)) continue;
    const float error = group_error(w, hw, s);
    if (error < best_error) {
      best_error = error;
      best = s;
    }
  }
  return best;
}

}  // namespace

LadderParams q2tp_v1_row(std::span<const float> row, std::span<std::uint8_t> rungs) noexcept {
  CORTIQ_ASSERT(!row.empty() && row.size() % kGroup == 0);
  const V1Row v1(row);
  const LadderParams params = v1.params(true);
  if (!rungs.empty()) v1.choose(params, true, rungs);
  return params;
}

LadderParams q2tp_place_row(std::span<const float> row, std::span<const float> hw,
                            std::span<std::uint8_t> rungs) noexcept {
  CORTIQ_ASSERT(!row.empty() && row.size() % kGroup == 0 && hw.size() == row.size());
  const std::size_t groups = row.size() / kGroup;
  std::vector<bool> dead(groups);
  Range range;
  for (std::size_t g = 0; g < groups; ++g) {
    const float* w = row.data() + g * kGroup;
    const float a = abs_max(w, kGroup);
    dead[g] = a == 0.0F;
    if (!dead[g]) range.add(det_log2(f16_scale(best_scale(w, hw.data() + g * kGroup, a))));
  }
  range.close();
  const std::uint16_t lo = f32_to_f16(range.lo);
  const float low = f16_to_f32(lo);
  LadderParams best{};
  double best_error = 0.0;
  std::vector<std::uint8_t> candidate(groups);
  for (const float share : kTopShares) {
    const LadderParams params{lo, covering_step(lo, low + (range.hi - low) * share, kRungs - 2)};
    const Ladder ladder = q2tp_ladder(params);
    double error = 0.0;
    for (std::size_t g = 0; g < groups; ++g) {
      float best_tile = kInf;
      unsigned rung = dead[g] ? 0 : 1;
      for (unsigned c = 1; c < kRungs && !dead[g]; ++c) {
        if (!(ladder[c] > 0.0F)) continue;
        const float e = group_error(row.data() + g * kGroup, hw.data() + g * kGroup, ladder[c]);
        if (e < best_tile) {
          best_tile = e;
          rung = c;
        }
      }
      candidate[g] = static_cast<std::uint8_t>(rung);
      if (!dead[g]) error = error + static_cast<double>(best_tile);
    }
    if (share == kTopShares[0] || error < best_error) {
      best_error = error;
      best = params;
      if (!rungs.empty()) std::copy(candidate.begin(), candidate.end(), rungs.begin());
    }
  }
  return best;
}

}  // namespace cortiq::codec
