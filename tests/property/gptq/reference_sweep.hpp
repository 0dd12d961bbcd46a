// reference_sweep.hpp: GPTQ of one row in f64, column by column over the whole row (gptq.md
// sections 4 and 6; docs/quality.md section 1), with every rung tried in the order of the
// specification.
#pragma once

#include "problems.hpp"

namespace cortiq::test {

enum class Choice { kWindow, kFull, kSimAll, kSimCoarse };

struct ReferenceRow {
  std::vector<int> codes;  ///< natural order
  std::vector<int> rungs;  ///< natural order, -1 for a zero group
  double loss = 0;         ///< sum of e^2
  std::vector<double> group_loss;
};

class ReferenceSweep {
 public:
  ReferenceSweep(const gptq::HostFactor& factor, std::vector<double> weights, bool four_bit,
                 Choice choice)
      : factor_(factor), weights_(std::move(weights)), four_bit_(four_bit), choice_(choice) {}

  ReferenceRow row(std::span<const float> w, codec::LadderParams params) const {
    const std::int64_t n = factor_.n();
    const codec::Ladder ladder =
        four_bit_ ? codec::q4tp_ladder(params) : codec::q2tp_ladder(params);
    std::vector<double> v(static_cast<std::size_t>(n));
    for (std::size_t a = 0; a < v.size(); ++a) {
      const auto c = static_cast<std::size_t>(factor_.elimination[a]);
      v[a] = factor_.dead[c] != 0 ? 0.0 : static_cast<double>(w[c]);
    }
    ReferenceRow out{std::vector<int>(v.size()), std::vector<int>(v.size() / 32), 0, {}};
    for (std::int64_t first = 0; first < n; first += 32) {
      const int rung = choose(v, first, params, ladder);
      const double scale = static_cast<double>(ladder[static_cast<std::size_t>(std::max(rung, 0))]);
      out.rungs[static_cast<std::size_t>(factor_.elimination[static_cast<std::size_t>(first)] /
                                         32)] = rung;
      double group = 0;
      for (std::int64_t j = first; j < first + 32; ++j) {
        const int code = nearest(v[static_cast<std::size_t>(j)], scale);
        out.codes[static_cast<std::size_t>(factor_.elimination[static_cast<std::size_t>(j)])] =
            code;
        const double e = (v[static_cast<std::size_t>(j)] - value(code, scale)) / factor_.u()(j, j);
        group += e * e;
        for (std::int64_t k = j + 1; k < n; ++k)
          v[static_cast<std::size_t>(k)] -= e * factor_.u()(j, k);
      }
      out.group_loss.push_back(group);
      out.loss += group;
    }
    return out;
  }

 private:
  int nearest(double x, double scale) const {
    if (!(scale > 0)) return four_bit_ ? 8 : 0;
    if (four_bit_) return static_cast<int>(std::clamp(std::nearbyint(x / scale), -8.0, 7.0)) + 8;
    return static_cast<int>(std::clamp(std::nearbyint(x / scale + 1.5), 0.0, 3.0));
  }
  double value(int code, double scale) const {
    return (static_cast<double>(code) - (four_bit_ ? 8.0 : 1.5)) * scale;
  }

  double loss_at(const std::vector<double>& v, std::int64_t first, double scale) const {
    std::vector<double> x(v.begin() + first, v.begin() + first + 32);
    const bool feedback = choice_ == Choice::kSimAll || choice_ == Choice::kSimCoarse;
    double loss = 0;
    for (std::int64_t j = 0; j < 32; ++j) {
      const double d = x[static_cast<std::size_t>(j)] -
                       value(nearest(x[static_cast<std::size_t>(j)], scale), scale);
      if (!feedback) {
        loss += weights_[static_cast<std::size_t>(
                    factor_.elimination[static_cast<std::size_t>(first + j)])] *
                d * d;
        continue;
      }
      const double e = d / factor_.u()(first + j, first + j);
      loss += e * e;
      for (std::int64_t k = j + 1; k < 32; ++k)
        x[static_cast<std::size_t>(k)] -= e * factor_.u()(first + j, first + k);
    }
    return loss;
  }

  int choose(const std::vector<double>& v, std::int64_t first, codec::LadderParams params,
             const codec::Ladder& ladder) const {
    double absmax = 0;
    for (std::int64_t j = first; j < first + 32; ++j)
      absmax = std::max(absmax, std::fabs(v[static_cast<std::size_t>(j)]));
    if (absmax == 0) return -1;
    const int bottom = four_bit_ ? 0 : 1;
    double best = std::numeric_limits<double>::infinity();
    int rung = bottom;
    const auto offer = [&](int c) {
      if (c < bottom || c > 31) return;
      const double loss =
          loss_at(v, first, static_cast<double>(ladder[static_cast<std::size_t>(c)]));
      if (loss < best || (loss == best && c < rung)) {
        best = loss;
        rung = c;
      }
    };
    if (choice_ == Choice::kWindow) {
      const double lo = static_cast<double>(f16_to_f32(params.lo));
      const double step = static_cast<double>(f16_to_f32(params.step));
      const double position = (std::log2(absmax / (four_bit_ ? 7.0 : 1.5)) - lo) / step;
      const double rounded = four_bit_ ? std::round(position) : std::nearbyint(position);
      const int nominal =
          bottom + static_cast<int>(std::clamp(rounded, 0.0, static_cast<double>(31 - bottom)));
      for (int c = nominal - 2; c <= nominal + 1; ++c) offer(c);
      return rung;
    }
    const int stride = choice_ == Choice::kSimCoarse ? 3 : 1;
    for (int c = bottom; c <= 31; c += stride) offer(c);
    if (stride == 1) return rung;
    const int centre = rung;
    for (const int offset : {-2, -1, 1, 2}) offer(centre + offset);
    return rung;
  }

  const gptq::HostFactor& factor_;
  std::vector<double> weights_;
  bool four_bit_;
  Choice choice_;
};

/// H_ii by channel, dead ones 0.
inline std::vector<double> diagonal_of(const Problem& p) {
  std::vector<double> d;
  for (std::int64_t i = 0; i < p.n; ++i) d.push_back(std::max(p.h[p.at(i, i)], 0.0));
  return d;
}

}  // namespace cortiq::test
