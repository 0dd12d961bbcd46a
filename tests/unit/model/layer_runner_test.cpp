// The stages of one layer, and what replacing a matrix between them does.
#include "cortiq/model/layer_runner.hpp"

#include <gtest/gtest.h>

#include <algorithm>

#include "cortiq/model/forward.hpp"
#include "tiny_model.hpp"

namespace cortiq::model::test {
namespace {

std::vector<float> copy(ConstMatrixView<float> m) {
  std::vector<float> values;
  for (std::int64_t r = 0; r < m.rows(); ++r) {
    values.insert(values.end(), m.row(r), m.row(r) + m.cols());
  }
  return values;
}

class LayerStages : public testing::Test {
 protected:
  LayerStages() : source_(make_tiny({})) {
    source_.finish();
    arch_ = read_arch(source_);
    weights_ = load_layer(arch_, source_, 0, pool_);
    std::vector<TokenId> ids(50);
    for (std::size_t i = 0; i < ids.size(); ++i) ids[i] = static_cast<TokenId>(i * 5 % 97);
    windows_.add(ids);
  }

  MemorySource source_;
  Pool pool_{2};
  Arch arch_;
  LayerWeights weights_;
  Windows windows_;
};

TEST_F(LayerStages, InOrderEqualTheForward) {
  const Forward forward(source_, pool_);
  HiddenStates want = forward.embed(windows_);
  HiddenStates got = forward.embed(windows_);
  forward.run_layer(0, windows_, want, nullptr);
  LayerScratch scratch(arch_, 50);
  LayerRunner runner(arch_, 0, weights_, 50, pool_);
  runner.begin(std::vector<std::int64_t>{50}, scratch);
  static_cast<void>(runner.attention_input(got.view()));
  static_cast<void>(runner.mix());
  runner.add_mixer(got.view());
  static_cast<void>(runner.mlp_input(got.view()));
  static_cast<void>(runner.activate());
  EXPECT_FALSE(runner.add_mlp(got.view()).has_value());
  EXPECT_EQ(copy(want.view()), copy(got.view()));
}

TEST_F(LayerStages, ReplacedMatrixActsFromItsStageOn) {
  const Forward forward(source_, pool_);
  HiddenStates states = forward.embed(windows_);
  LayerScratch scratch(arch_, 50);
  LayerRunner runner(arch_, 0, weights_, 50, pool_);
  runner.begin(std::vector<std::int64_t>{50}, scratch);
  static_cast<void>(runner.attention_input(states.view()));
  static_cast<void>(runner.mix());
  runner.add_mixer(states.view());
  const std::vector<float> between = copy(states.view());
  static_cast<void>(runner.mlp_input(states.view()));
  const MatrixView<float> up = weights_.mlp.part(1);
  EXPECT_EQ(weights_.mlp.parts[1].name, "model.layers.0.mlp.up_proj.weight");
  for (std::int64_t r = 0; r < up.rows(); ++r) std::fill_n(up.row(r), up.cols(), 0.0F);
  static_cast<void>(runner.activate());
  EXPECT_FALSE(runner.add_mlp(states.view()).has_value());
  EXPECT_EQ(between, copy(states.view()));
}

TEST_F(LayerStages, StackHoldsTheTensorsInOrder) {
  ASSERT_EQ(weights_.in.parts.size(), 3U);
  EXPECT_EQ(copy(weights_.in.part(2)), source_.values("model.layers.0.self_attn.v_proj.weight"));
  EXPECT_EQ(copy(weights_.down.view()), source_.values("model.layers.0.mlp.down_proj.weight"));
}

}  // namespace
}  // namespace cortiq::model::test
