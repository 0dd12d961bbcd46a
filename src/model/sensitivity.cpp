#include "cortiq/model/sensitivity.hpp"

#include <algorithm>
#include <cmath>
#include <set>

#include "cortiq/model/head.hpp"

namespace cortiq::model {

namespace {

constexpr double kStep = 0.1;  // size of the perturbation relative to what the layer adds
constexpr std::uint64_t kSeed = 0x9E3779B97F4A7C15ULL;

std::size_t at(std::int64_t i) { return static_cast<std::size_t>(i); }

/// +1 or -1, a fixed pattern over the elements.
float sign_at(std::uint64_t i) {
  std::uint64_t x = (i + 1) * kSeed;
  x ^= x >> 31;
  x *= 0xBF58476D1CE4E5B9ULL;
  return (x >> 40 & 1U) != 0 ? 1.0F : -1.0F;
}

/// Evenly spread layers, the first and the last among them.
std::set<std::int64_t> probed_layers(std::int64_t layers, std::int64_t most) {
  std::set<std::int64_t> probed;
  const std::int64_t count = std::clamp<std::int64_t>(most, 1, layers);
  for (std::int64_t i = 0; i < count; ++i)
    probed.insert(count == 1 ? layers / 2 : i * (layers - 1) / (count - 1));
  return probed;
}

/// after + kStep * rms(after - before) * pattern, per token.
void perturb(ConstMatrixView<float> before, ConstMatrixView<float> after, MatrixView<float> out) {
  for (std::int64_t r = 0; r < after.rows(); ++r) {
    double sum = 0;
    for (std::int64_t c = 0; c < after.cols(); ++c) {
      const double d = static_cast<double>(after(r, c)) - static_cast<double>(before(r, c));
      sum += d * d;
    }
    const auto size = static_cast<float>(kStep * std::sqrt(sum / static_cast<double>(after.cols())));
    for (std::int64_t c = 0; c < after.cols(); ++c)
      out(r, c) = after(r, c) + size * sign_at(static_cast<std::uint64_t>(r * after.cols() + c));
  }
}

void copy_rows(ConstMatrixView<float> from, MatrixView<float> to) {
  for (std::int64_t r = 0; r < from.rows(); ++r) std::copy(from.row(r), from.row(r) + from.cols(), to.row(r));
}

double relative_change(const Head& head, ConstMatrixView<float> base, ConstMatrixView<float> test) {
  std::vector<float> a(at(base.rows() * base.cols())), b(a.size());
  head.norm(base, {a.data(), base.rows(), base.cols()});
  head.norm(test, {b.data(), base.rows(), base.cols()});
  double change = 0, energy = 0;
  for (std::size_t i = 0; i < a.size(); ++i) {
    const double d = static_cast<double>(b[i]) - static_cast<double>(a[i]);
    change += d * d;
    energy += static_cast<double>(a[i]) * static_cast<double>(a[i]);
  }
  return energy > 0 ? change / energy : 0.0;
}

/// Fills the layers between the probed ones.
void interpolate(std::vector<double>& values, const std::set<std::int64_t>& probed) {
  constexpr double kFloor = 1e-30;
  std::int64_t before = *probed.begin();
  for (std::int64_t l = 0; l < before; ++l) values[at(l)] = values[at(before)];
  for (const std::int64_t next : probed) {
    for (std::int64_t l = before + 1; l < next; ++l) {
      const double share = static_cast<double>(l - before) / static_cast<double>(next - before);
      values[at(l)] = std::exp((1 - share) * std::log(values[at(before)] + kFloor) + share * std::log(values[at(next)] + kFloor));
    }
    before = next;
  }
  for (auto l = static_cast<std::int64_t>(values.size()) - 1; l > before; --l) values[at(l)] = values[at(before)];
}

}  // namespace

std::vector<double> layer_sensitivity(const Forward& forward, const Windows& windows, std::int64_t most_probes,
                                      const std::function<void(std::int64_t)>& on_layer) {
  const std::int64_t layers = forward.arch().layers;
  const std::int64_t tokens = windows.tokens();
  const std::set<std::int64_t> probed = probed_layers(layers, most_probes);
  // The base and all probes so far run as one batch of windows, so that each layer is read once.
  Windows all = windows;
  HiddenStates states = forward.embed(windows);
  std::vector<float> before(at(tokens * forward.arch().hidden));
  const MatrixView<float> before_view(before.data(), tokens, forward.arch().hidden);
  for (std::int64_t layer = 0; layer < layers; ++layer) {
    copy_rows(states.view().block(0, 0, tokens, forward.arch().hidden), before_view);
    forward.run_layer(layer, all, states, nullptr);
    if (probed.contains(layer)) {
      for (std::int64_t w = 0; w < windows.count(); ++w) all.add(windows.window(w));
      HiddenStates wider(all.tokens(), forward.arch().hidden, std::nullopt);
      const std::int64_t held = all.tokens() - tokens;
      copy_rows(states.view(), wider.view().block(0, 0, held, forward.arch().hidden));
      perturb(before_view, states.view().block(0, 0, tokens, forward.arch().hidden),
              wider.view().block(held, 0, tokens, forward.arch().hidden));
      states = std::move(wider);
    }
    if (on_layer) on_layer(layer + 1);
  }
  std::vector<double> result(at(layers), 0.0);
  std::int64_t probe = 1;
  for (const std::int64_t layer : probed) {
    result[at(layer)] = relative_change(forward.head(), states.view().block(0, 0, tokens, forward.arch().hidden),
                                        states.view().block(probe++ * tokens, 0, tokens, forward.arch().hidden)) /
                        (kStep * kStep);
  }
  interpolate(result, probed);
  return result;
}

}  // namespace cortiq::model
