// Rung searches of q4tp and q2tp (codecs.md sections 3 and 4). A lane holds a group, so each
// group's error is summed in the specified order, and several groups advance at once.
#include <cstdint>

#include "encode_kernels.hpp"
#include "lanes.hpp"

namespace cortiq::codec::CORTIQ_SIMD {

namespace {

constexpr int kGroup = 32;
constexpr int kMultiples = 31;
constexpr int kRungCount = 32;
constexpr float kInfinity = __builtin_inff();
constexpr float kNotANumber = __builtin_nanf("");

/// kLanes groups side by side: value i of lane l at [i*kLanes + l]. Missing groups are zero.
struct alignas(64) Block {
  float values[kGroup * kLanes];

  void fill(const float* row, std::int64_t count) noexcept {
    for (int l = 0; l < kLanes; ++l) {
      for (int i = 0; i < kGroup; ++i)
        values[i * kLanes + l] = l < count ? row[l * kGroup + i] : 0.0F;
    }
  }
  [[nodiscard]] Floats at(int i) const noexcept { return load(values + i * kLanes); }
};

std::int64_t smaller(std::int64_t a, std::int64_t b) noexcept { return a < b ? a : b; }

void write_rungs(Ints rungs, std::uint8_t* out, std::int64_t count) noexcept {
  std::int32_t lanes[kLanes];
  store(lanes, rungs);
  for (std::int64_t l = 0; l < count; ++l) out[l] = static_cast<std::uint8_t>(lanes[l]);
}

void write_floats(Floats v, float* out, std::int64_t count) noexcept {
  float lanes[kLanes];
  store(lanes, v);
  for (std::int64_t l = 0; l < count; ++l) out[l] = lanes[l];
}

Floats read_floats(const float* in, std::int64_t count) noexcept {
  float lanes[kLanes];
  for (std::int64_t l = 0; l < kLanes; ++l) lanes[l] = l < count ? in[l] : 1.0F;
  return load(lanes);
}

void abs_max(const float* row, float* out, std::int64_t groups) noexcept {
  for (std::int64_t g = 0; g < groups; ++g) {
    Floats best = splat(0.0F);
    for (int i = 0; i < kGroup; i += kLanes) {
      const Floats v = load(row + g * kGroup + i);
      best = max(best, max(v, -v));
    }
    float lanes[kLanes];
    store(lanes, best);
    float m = 0.0F;
    for (int l = 0; l < kLanes; ++l) m = lanes[l] > m ? lanes[l] : m;
    out[g] = m;
  }
}

/// The value that a code of a 4-bit or 2-bit group stands for at scale s.
template <bool kTwoBits>
Floats reconstruct(Floats w, Floats inverse, Floats s) noexcept {
  if constexpr (kTwoBits) {
    return (round_even(clamp(w * inverse + splat(1.5F), 0.0F, 3.0F)) - splat(1.5F)) * s;
  } else {
    return round_even(clamp(w * inverse, -8.0F, 7.0F)) * s;
  }
}

/// Scales of the candidate nominal+offset; a NaN marks one that is not to be tried, as its error
/// never is smaller.
Floats candidate_scales(const float* ladder, const std::int32_t* nominal, int offset,
                        int lowest) noexcept {
  float lanes[kLanes];
  for (int l = 0; l < kLanes; ++l) {
    const int c = nominal[l] + offset;
    const bool allowed = c >= lowest && c < kRungCount && ladder[c] > 0.0F;
    lanes[l] = allowed ? ladder[c] : kNotANumber;
  }
  return load(lanes);
}

/// Errors of kCount neighbouring candidates, each summed over the group in index order.
template <bool kTwoBits, int kCount>
void window_errors(const Block& block, const Floats* s, Floats* errors) noexcept {
  Floats inverse[kCount];
  for (int k = 0; k < kCount; ++k) {
    inverse[k] = splat(1.0F) / s[k];
    errors[k] = splat(0.0F);
  }
  for (int i = 0; i < kGroup; ++i) {
    const Floats w = block.at(i);
    for (int k = 0; k < kCount; ++k) {
      const Floats d = w - reconstruct<kTwoBits>(w, inverse[k], s[k]);
      errors[k] = errors[k] + d * d;
    }
  }
}

template <bool kTwoBits, int kCount>
void window(const float* row, const float* ladder, const std::uint8_t* nominal, float* errors,
            std::uint8_t* rungs, std::int64_t groups) noexcept {
  constexpr int kFirstOffset = -2;
  Block block;
  for (std::int64_t g = 0; g < groups; g += kLanes) {
    const std::int64_t count = smaller(kLanes, groups - g);
    block.fill(row + g * kGroup, count);
    std::int32_t centre[kLanes];
    for (int l = 0; l < kLanes; ++l) centre[l] = l < count ? nominal[g + l] : 1;
    Ints rung;
    std::memcpy(&rung, centre, sizeof(rung));
    const Ints middle = rung;
    Floats s[kCount];
    Floats error[kCount];
    for (int k = 0; k < kCount; ++k)
      s[k] = candidate_scales(ladder, centre, kFirstOffset + k, kTwoBits ? 1 : 0);
    window_errors<kTwoBits, kCount>(block, s, error);
    Floats best = splat(kInfinity);
    for (int k = 0; k < kCount; ++k) {
      const Ints better = error[k] < best;
      rung = better ? middle + (kFirstOffset + k) : rung;
      best = better ? error[k] : best;
    }
    write_rungs(rung, rungs + g, count);
    if (errors != nullptr) write_floats(best, errors + g, count);
  }
}

void q4_window(const float* row, const float* ladder, const std::uint8_t* nominal,
               std::uint8_t* rungs, std::int64_t groups) noexcept {
  window<false, 4>(row, ladder, nominal, nullptr, rungs, groups);
}

void q2_window(const float* row, const float* ladder, const std::uint8_t* nominal, int above,
               float* errors, std::uint8_t* rungs, std::int64_t groups) noexcept {
  if (above == 1) {
    window<true, 4>(row, ladder, nominal, errors, rungs, groups);
  } else {
    window<true, 5>(row, ladder, nominal, errors, rungs, groups);
  }
}

/// The four reconstructed values of a scale that all lanes share, chosen by the low bits of the
/// rounded code.
class SharedLevels {
 public:
  explicit SharedLevels(float s) noexcept {
#if defined(__AVX512F__)
    table_ = _mm512_broadcast_f32x4(_mm_setr_ps(-1.5F * s, -0.5F * s, 0.5F * s, 1.5F * s));
#elif defined(__AVX2__)
    const __m128 four = _mm_setr_ps(-1.5F * s, -0.5F * s, 0.5F * s, 1.5F * s);
    table_ = _mm256_broadcast_ps(&four);
#else
    table_ = splat(s);
#endif
  }
  /// shifted = code + kRounder
  [[nodiscard]] Floats value(Floats shifted) const noexcept {
#if defined(__AVX512F__)
    return _mm512_permutevar_ps(table_, _mm512_castps_si512(shifted));
#elif defined(__AVX2__)
    return _mm256_permutevar_ps(table_, _mm256_castps_si256(shifted));
#else
    return ((shifted - splat(kRounder)) - splat(1.5F)) * table_;
#endif
  }

 private:
  Floats table_;
};

/// The same for scales that differ by lane.
class OwnLevels {
 public:
  explicit OwnLevels(Floats s) noexcept : s_(s) {}
  [[nodiscard]] Floats value(Floats shifted) const noexcept {
    return ((shifted - splat(kRounder)) - splat(1.5F)) * s_;
  }

 private:
  Floats s_;
};

/// Weighted squared error with the eight partial sums of the specification.
template <bool kWeighted, typename Levels>
Floats group_error(const Block& block, const Block& weights, Floats inverse,
                   const Levels& levels) noexcept {
  Floats acc[8];
  for (Floats& a : acc) a = splat(0.0F);
  for (int c = 0; c < 4; ++c) {
    for (int l = 0; l < 8; ++l) {
      const Floats w = block.at(8 * c + l);
      const Floats shifted = clamp(w * inverse + splat(1.5F), 0.0F, 3.0F) + splat(kRounder);
      const Floats d = w - levels.value(shifted);
      if constexpr (kWeighted) {
        acc[l] = acc[l] + (weights.at(8 * c + l) * d) * d;
      } else {
        acc[l] = acc[l] + d * d;
      }
    }
  }
  return ((acc[0] + acc[1]) + (acc[2] + acc[3])) + ((acc[4] + acc[5]) + (acc[6] + acc[7]));
}

template <bool kWeighted>
void place(const float* row, const float* hw, const float* base, const float* multiples,
           float* scales, std::int64_t groups) noexcept {
  Block block;
  Block weights;
  for (std::int64_t g = 0; g < groups; g += kLanes) {
    const std::int64_t count = smaller(kLanes, groups - g);
    block.fill(row + g * kGroup, count);
    if constexpr (kWeighted) weights.fill(hw + g * kGroup, count);
    const Floats start = read_floats(base + g, count);
    Floats best = splat(kInfinity);
    Floats scale = start;
    for (int k = 0; k < kMultiples; ++k) {
      const Floats product = start * splat(multiples[k]);
      const Floats s = product > splat(0.0F) ? product : splat(kNotANumber);
      const Floats error = group_error<kWeighted>(block, weights, splat(1.0F) / s, OwnLevels(s));
      const Ints better = error < best;
      scale = better ? s : scale;
      best = better ? error : best;
    }
    write_floats(scale, scales + g, count);
  }
}

template <bool kWeighted>
void all_rungs(const float* row, const float* hw, const float* ladder, float* errors,
               std::uint8_t* rungs, std::int64_t groups) noexcept {
  Block block;
  Block weights;
  for (std::int64_t g = 0; g < groups; g += kLanes) {
    const std::int64_t count = smaller(kLanes, groups - g);
    block.fill(row + g * kGroup, count);
    if constexpr (kWeighted) weights.fill(hw + g * kGroup, count);
    Floats best = splat(kInfinity);
    Ints rung = Ints{} + 1;
    for (int c = 1; c < kRungCount; ++c) {
      if (!(ladder[c] > 0.0F)) continue;
      const Floats error =
          group_error<kWeighted>(block, weights, splat(1.0F / ladder[c]), SharedLevels(ladder[c]));
      const Ints better = error < best;
      rung = better ? Ints{} + c : rung;
      best = better ? error : best;
    }
    write_rungs(rung, rungs + g, count);
    write_floats(best, errors + g, count);
  }
}

void q2_place(const float* row, const float* hw, const float* base, const float* multiples,
              float* scales, std::int64_t groups) noexcept {
  if (hw != nullptr) {
    place<true>(row, hw, base, multiples, scales, groups);
  } else {
    place<false>(row, hw, base, multiples, scales, groups);
  }
}

void q2_rungs(const float* row, const float* hw, const float* ladder, float* errors,
              std::uint8_t* rungs, std::int64_t groups) noexcept {
  if (hw != nullptr) {
    all_rungs<true>(row, hw, ladder, errors, rungs, groups);
  } else {
    all_rungs<false>(row, hw, ladder, errors, rungs, groups);
  }
}

}  // namespace

SearchKernels search_kernels() noexcept {
  return {abs_max, q4_window, q2_window, q2_place, q2_rungs};
}

}  // namespace cortiq::codec::CORTIQ_SIMD
