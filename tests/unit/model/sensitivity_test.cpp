// The sensitivity of layers against what the residual stream says directly.
#include "cortiq/model/sensitivity.hpp"

#include <gtest/gtest.h>

#include <algorithm>
#include <cmath>

#include "tiny_model.hpp"

namespace cortiq::model::test {
namespace {

Windows some_windows() {
  Windows windows;
  std::vector<TokenId> ids;
  for (int i = 0; i < 48; ++i) ids.push_back(static_cast<TokenId>((i * 29 + 7) % 97));
  for (int w = 0; w < 3; ++w) windows.add(std::span(ids).subspan(static_cast<std::size_t>(16 * w), 16));
  return windows;
}

MemorySource model_of(std::int64_t layers) {
  TinyOptions options;
  options.layers = layers;
  MemorySource source = make_tiny(options);
  auto& norm = source.values("model.norm.weight");
  std::fill(norm.begin(), norm.end(), 1.0F);
  return source;
}

TEST(Sensitivity, that_of_the_last_layer_is_its_share_of_the_residual_stream) {
  MemorySource source = model_of(3);
  source.finish();
  Pool pool(2);
  const Forward forward(source, pool);
  const Windows windows = some_windows();
  HiddenStates states = forward.embed(windows);
  for (std::int64_t l = 0; l < 2; ++l) forward.run_layer(l, windows, states, nullptr);
  std::vector<float> before;
  const std::int64_t hidden = forward.arch().hidden;
  for (std::int64_t r = 0; r < windows.tokens(); ++r)
    before.insert(before.end(), states.view().row(r), states.view().row(r) + hidden);
  forward.run_layer(2, windows, states, nullptr);
  double share = 0;
  for (std::int64_t r = 0; r < windows.tokens(); ++r) {
    double added = 0, whole = 0;
    for (std::int64_t c = 0; c < hidden; ++c) {
      const double after = static_cast<double>(states.view()(r, c));
      added += std::pow(after - static_cast<double>(before[static_cast<std::size_t>(r * hidden + c)]), 2);
      whole += after * after;
    }
    share += added / whole / static_cast<double>(windows.tokens());
  }
  const auto sensitivity = layer_sensitivity(forward, windows, 8);
  ASSERT_EQ(sensitivity.size(), 3U);
  EXPECT_NEAR(sensitivity[2] / share, 1.0, 0.08);  // the norm takes a fortieth, the step is finite
}

TEST(Sensitivity, a_layer_that_adds_a_hundredth_matters_ten_thousand_times_less) {
  Pool pool(2);
  const Windows windows = some_windows();
  std::vector<double> last;
  for (const float factor : {1.0F, 0.01F}) {
    MemorySource source = model_of(2);
    for (const char* name : {"model.layers.1.self_attn.o_proj.weight", "model.layers.1.mlp.down_proj.weight"})
      for (float& w : source.values(name)) w *= factor;
    source.finish();
    last.push_back(layer_sensitivity(Forward(source, pool), windows, 8).back());
  }
  EXPECT_LT(last[1] / last[0], 3e-4);
  EXPECT_GT(last[1] / last[0], 2e-5);
}

TEST(Sensitivity, layers_between_the_probed_ones_lie_between_them) {
  MemorySource source = model_of(5);
  source.finish();
  Pool pool(2);
  const Forward forward(source, pool);
  const auto all = layer_sensitivity(forward, some_windows(), 5);
  const auto few = layer_sensitivity(forward, some_windows(), 2);
  EXPECT_NEAR(few[0], all[0], 1e-9 * all[0]);
  EXPECT_NEAR(few[4], all[4], 1e-9 * all[4]);
  for (std::size_t l = 1; l < 4; ++l) {
    EXPECT_LE(few[l], std::max(few[0], few[4]) * (1 + 1e-12));
    EXPECT_GE(few[l], std::min(few[0], few[4]) * (1 - 1e-12));
  }
}

}  // namespace
}  // namespace cortiq::model::test
