// The experts of a layer taken apart give what Forward::run_layer gives.
#include "cortiq/model/expert_stream.hpp"

#include <gtest/gtest.h>

#include "cortiq/model/forward.hpp"
#include "cortiq/model/layer_stream.hpp"
#include "run_model.hpp"
#include "tiny_model.hpp"

namespace cortiq::model::test {
namespace {

std::vector<float> copy(ConstMatrixView<float> m) {
  std::vector<float> values;
  for (std::int64_t r = 0; r < m.rows(); ++r)
    values.insert(values.end(), m.row(r), m.row(r) + m.cols());
  return values;
}

void run_mixer(LayerStream& layer) {
  for (std::int64_t b = 0; b < layer.batches(); ++b) layer.add_mixer(b, layer.mix(b));
}

/// All experts, then the shared one, as one caller would.
void run_experts(ExpertStream& stream, const MemorySource& source, const Arch& arch,
                 LayerWeights& weights, std::int64_t tokens, Pool& pool) {
  stream.route();
  ExpertWeights expert;
  std::vector<float> x(static_cast<std::size_t>(tokens * arch.hidden));
  for (std::int64_t e = 0; e < arch.layer_experts[0]; ++e) {
    const auto rows = stream.rows(e);
    if (rows.empty()) continue;
    load_expert(source, 0, e, expert, pool);
    const MatrixView<float> in(x.data(), static_cast<std::int64_t>(rows.size()), arch.hidden);
    stream.input(rows, in);
    stream.add(e, 0, expert.down, stream.activate(expert.mlp, in));
  }
  if (weights.mlp.rows == 0) return;
  const MatrixView<float> in(x.data(), tokens, arch.hidden);
  stream.input(0, in);
  stream.add_shared(0, weights.down, stream.activate(weights.mlp, in));
}

class ExpertStreamTest : public testing::Test {
 protected:
  void expect_bits_of_the_forward(const TinyExperts& experts) {
    MemorySource source = make_tiny({.family = "qwen2", .layers = 1});
    add_experts(source, 0, experts);
    source.finish();
    const Arch arch = read_arch(source);
    Windows windows;
    for (const std::size_t length : {40U, 21U}) windows.add(random_ids(length, 97, 5));
    const Forward forward(source, pool_);
    HiddenStates want = forward.embed(windows);
    HiddenStates got = forward.embed(windows);
    forward.run_layer(0, windows, want, nullptr);
    LayerStream layer({arch, source, windows, got.view()}, 0, pool_);
    run_mixer(layer);
    const std::vector<float> before = copy(got.view());
    ExpertStream stream({arch, layer.weights(), got.view(), std::nullopt}, 0, pool_);
    run_experts(stream, source, arch, layer.weights(), windows.tokens(), pool_);
    EXPECT_EQ(copy(got.view()), before) << "the states change in finish only";
    EXPECT_FALSE(stream.finish().has_value());
    EXPECT_EQ(copy(want.view()), copy(got.view()));
  }
  Pool pool_{2};
};

TEST_F(ExpertStreamTest, routed_experts_equal_the_forward) { expect_bits_of_the_forward({}); }

TEST_F(ExpertStreamTest, a_shared_expert_with_its_gate_equals_the_forward) {
  expect_bits_of_the_forward({.shared_width = 32, .shared_gate = true});
}

TEST_F(ExpertStreamTest, a_shared_expert_without_a_gate_equals_the_forward) {
  expect_bits_of_the_forward({.shared_width = 32});
}

}  // namespace
}  // namespace cortiq::model::test
