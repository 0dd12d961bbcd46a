// reference.hpp: q4tp and q2tp encoders written a second time, as plain as the specification
// (codecs.md sections 3 and 4), for comparison with the vectorised ones.
#pragma once

#include <algorithm>
#include <array>
#include <cmath>
#include <cstring>
#include <functional>
#include <limits>
#include <vector>

#include "cortiq/codec/ladder.hpp"
#include "cortiq/support/half.hpp"
#include "matrices.hpp"

namespace cortiq::test {

using codec::Ladder;
using codec::LadderParams;

inline float rounded(float x, float lo, float hi) { return std::clamp(std::nearbyint(x), lo, hi); }

struct RowChoice {
  LadderParams params;
  std::vector<unsigned> rungs;
};

struct GroupLogs {
  std::vector<float> logs;
  std::vector<bool> dead;
  float lo = std::numeric_limits<float>::infinity();
  float hi = -std::numeric_limits<float>::infinity();

  GroupLogs(const float* row, std::size_t groups,
            const std::function<float(const float*, float)>& scale) {
    for (std::size_t g = 0; g < groups; ++g) {
      float a = 0.0F;
      for (std::size_t i = 0; i < 32; ++i) a = std::max(a, std::fabs(row[32 * g + i]));
      dead.push_back(a == 0.0F);
      logs.push_back(codec::det_log2(codec::f16_scale(scale(row + 32 * g, a))));
      if (a == 0.0F) continue;
      lo = std::min(lo, logs.back());
      hi = std::max(hi, logs.back());
    }
    if (hi < lo) lo = hi = logs[0];
  }
};

inline int nominal(float lg, LadderParams p, int last) {
  const float step = f16_to_f32(p.step);
  return static_cast<int>(
      std::clamp(std::nearbyint((lg - f16_to_f32(p.lo)) / step), 0.0F, static_cast<float>(last)));
}

inline float plain_error(const float* w, float s, bool two_bits) {
  const float inv = 1.0F / s;
  float error = 0.0F;
  for (int i = 0; i < 32; ++i) {
    const float q =
        two_bits ? rounded(w[i] * inv + 1.5F, 0.0F, 3.0F) - 1.5F : rounded(w[i] * inv, -8.0F, 7.0F);
    const float product = q * s;
    const float d = w[i] - product;
    const float square = d * d;
    error = error + square;
  }
  return error;
}

inline RowChoice q4tp_row(const float* row, std::size_t groups, bool search) {
  const GroupLogs logs(row, groups, [](const float*, float a) { return a / 7.0F; });
  RowChoice out;
  out.params.lo = f32_to_f16(logs.lo);
  out.params.step = codec::covering_step(out.params.lo, logs.hi, 31);
  const Ladder t = codec::q4tp_ladder(out.params);
  for (std::size_t g = 0; g < groups; ++g) {
    int rung = logs.dead[g] ? 0 : nominal(logs.logs[g], out.params, 31);
    float best = std::numeric_limits<float>::infinity();
    const int centre = rung;
    for (int c = std::max(centre - 2, 0); search && !logs.dead[g] && c <= std::min(centre + 1, 31);
         ++c) {
      const float error = plain_error(row + 32 * g, t[static_cast<std::size_t>(c)], false);
      if (error < best) {
        best = error;
        rung = c;
      }
    }
    out.rungs.push_back(static_cast<unsigned>(rung));
  }
  return out;
}

inline float eight_lane_error(const float* w, float s) {
  std::array<float, 8> acc{};
  const float inv = 1.0F / s;
  for (std::size_t i = 0; i < 32; ++i) {
    const float x = w[i] * inv + 1.5F;
    const float level = rounded(std::clamp(x, -1.0F, 4.0F), 0.0F, 3.0F) - 1.5F;
    const float product = level * s;
    const float d = w[i] - product;
    const float square = d * d;
    acc[i % 8] = acc[i % 8] + square;
  }
  return ((acc[0] + acc[1]) + (acc[2] + acc[3])) + ((acc[4] + acc[5]) + (acc[6] + acc[7]));
}

inline float placed_scale(const float* w, float a) {
  const float base = a / 1.5F;
  float best_scale = base;
  float best = std::numeric_limits<float>::infinity();
  for (int k = 0; k <= 30; ++k) {
    const float s = base * static_cast<float>(static_cast<double>(300 + 25 * k) / 1000.0);
    if (!(s > 0.0F)) continue;
    const float error = eight_lane_error(w, s);
    if (error < best) {
      best = error;
      best_scale = s;
    }
  }
  return best_scale;
}

inline RowChoice q2tp_placed_row(const float* row, std::size_t groups) {
  const GroupLogs logs(row, groups, placed_scale);
  const std::uint16_t lo = f32_to_f16(logs.lo);
  const float low = f16_to_f32(lo);
  RowChoice best;
  double best_error = std::numeric_limits<double>::infinity();
  for (const float share : {1.0F, 0.9F, 0.8F, 0.7F}) {
    RowChoice tried;
    tried.params = {lo, codec::covering_step(lo, low + (logs.hi - low) * share, 30)};
    const Ladder t = codec::q2tp_ladder(tried.params);
    double total = 0.0;
    for (std::size_t g = 0; g < groups; ++g) {
      unsigned rung = logs.dead[g] ? 0 : 1;
      float least = std::numeric_limits<float>::infinity();
      for (unsigned c = 1; c < 32 && !logs.dead[g]; ++c) {
        const float error = eight_lane_error(row + 32 * g, t[c]);
        if (error < least) {
          least = error;
          rung = c;
        }
      }
      tried.rungs.push_back(rung);
      if (!logs.dead[g]) total = total + static_cast<double>(least);
    }
    if (best.rungs.empty() || total < best_error) {
      best_error = total;
      best = tried;
    }
  }
  return best;
}

/// The payload of rows whose parameters and rungs `choose` gives; 2-bit rows are debiased.
inline std::vector<std::byte> reference_payload(
    const TestMatrix& m, bool two_bits,
    const std::function<RowChoice(const float*, std::size_t)>& choose) {
  const codec::PlaneLayout layout = codec::plane_layout(two_bits ? 2 : 4, m.rows, m.cols);
  std::vector<std::byte> out(layout.bytes);
  auto* bytes = reinterpret_cast<std::uint8_t*>(out.data());
  const auto groups = static_cast<std::size_t>(m.cols / 32);
  for (std::int64_t r = 0; r < m.rows; ++r) {
    const float* row = m.values.data() + r * m.cols;
    RowChoice choice = choose(row, groups);
    const Ladder t =
        two_bits ? codec::q2tp_ladder(choice.params) : codec::q4tp_ladder(choice.params);
    double num = 0.0;
    double den = 0.0;
    for (std::size_t i = 0; i < groups * 32; ++i) {
      const float s = t[choice.rungs[i / 32]];
      const float inv = s > 0.0F ? 1.0F / s : 0.0F;
      const std::size_t at = static_cast<std::size_t>(r * m.cols) + i;
      if (two_bits) {
        const float q = rounded(row[i] * inv + 1.5F, 0.0F, 3.0F);
        bytes[at / 4] =
            static_cast<std::uint8_t>(bytes[at / 4] | (static_cast<unsigned>(q) << (2 * (at % 4))));
        const float level = (q - 1.5F) * s;
        num = num + static_cast<double>(row[i]) * static_cast<double>(level);
        den = den + static_cast<double>(row[i]) * static_cast<double>(row[i]);
      } else {
        const int q = static_cast<int>(rounded(row[i] * inv, -8.0F, 7.0F)) + 8;
        bytes[at / 2] = static_cast<std::uint8_t>(bytes[at / 2] | (q << (4 * (at % 2))));
      }
    }
    if (two_bits) choice.params = codec::unshrink(choice.params, num, den);
    std::memcpy(bytes + layout.params_offset + 4 * static_cast<std::uint64_t>(r), &choice.params,
                4);
    std::uint8_t* rungs =
        bytes + layout.rungs_offset + static_cast<std::uint64_t>(r * layout.rung_row_bytes);
    for (std::size_t g = 0; g < groups; ++g)
      codec::put_rung(rungs, static_cast<std::int64_t>(g), choice.rungs[g]);
  }
  return out;
}

}  // namespace cortiq::test
