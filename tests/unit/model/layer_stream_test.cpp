// One layer stage by stage over all windows gives the bits of Forward::run_layer.
#include "cortiq/model/layer_stream.hpp"

#include <gtest/gtest.h>

#include <cmath>
#include <limits>

#include "cortiq/model/forward.hpp"
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

/// Inputs and hidden states of a layer, all windows through one stage before the next.
struct Staged {
  std::vector<std::vector<float>> kept;
  void run(LayerStream& layer) {
    const auto all = [&](const auto& stage, const auto& join) {
      kept.clear();
      std::vector<std::int64_t> widths;
      for (std::int64_t b = 0; b < layer.batches(); ++b) {
        const ConstMatrixView<float> x = stage(b);
        widths.push_back(x.cols());
        kept.push_back(copy(x));
      }
      for (std::int64_t b = 0; b < layer.batches(); ++b) {
        const auto i = static_cast<std::size_t>(b);
        join(b, ConstMatrixView<float>(kept[i].data(), layer.rows(b).rows(), widths[i]));
      }
    };
    all([&](std::int64_t b) { return layer.mix(b); },
        [&](std::int64_t b, ConstMatrixView<float> x) { layer.add_mixer(b, x); });
    all([&](std::int64_t b) { return layer.activate(b); },
        [&](std::int64_t b, ConstMatrixView<float> x) { layer.add_mlp(b, x); });
  }
};

class LayerStreamTest : public testing::Test {
 protected:
  void SetUp() override {
    for (const std::size_t length : {50U, 7U, 33U, 50U}) windows_.add(random_ids(length, 97, 3));
  }
  void expect_bits_of_the_forward(MemorySource& source) {
    source.finish();
    const Arch arch = read_arch(source);
    const Forward forward(source, pool_);
    HiddenStates want = forward.embed(windows_);
    HiddenStates got = forward.embed(windows_);
    for (std::int64_t layer = 0; layer < arch.layers; ++layer) {
      forward.run_layer(layer, windows_, want, nullptr);
      LayerStream stream({arch, source, windows_, got.view(), 60}, layer, pool_);
      EXPECT_EQ(stream.batches(), 3);
      Staged().run(stream);
      EXPECT_EQ(copy(want.view()), copy(got.view())) << "layer " << layer;
    }
  }
  Windows windows_;
  Pool pool_{2};
};

TEST_F(LayerStreamTest, stages_over_all_windows_equal_the_forward) {
  MemorySource source = make_tiny({});
  expect_bits_of_the_forward(source);
}

TEST_F(LayerStreamTest, stages_equal_the_forward_with_norms_behind_the_blocks) {
  MemorySource source = make_tiny({.family = "gemma3", .qk_norm = true, .sandwich = true});
  expect_bits_of_the_forward(source);
}

TEST_F(LayerStreamTest, stages_equal_the_forward_with_linear_attention) {
  MemorySource source = make_tiny({.family = "qwen3", .qk_norm = true});
  make_linear(source, 0, {});
  expect_bits_of_the_forward(source);
}

TEST_F(LayerStreamTest, a_state_that_is_not_finite_names_layer_and_window) {
  MemorySource source = make_tiny({});
  source.finish();
  const Arch arch = read_arch(source);
  HiddenStates states = Forward(source, pool_).embed(windows_);
  LayerStream stream({arch, source, windows_, states.view(), 60}, 1, pool_);
  std::vector<float> activated(static_cast<std::size_t>(stream.rows(1).rows() * arch.intermediate));
  activated[static_cast<std::size_t>(4 * arch.intermediate)] =
      std::numeric_limits<float>::infinity();
  try {
    stream.add_mlp(1, {activated.data(), stream.rows(1).rows(), arch.intermediate});
    FAIL() << "accepted";
  } catch (const Error& error) {
    EXPECT_EQ(error.kind(), ErrorKind::kNumeric);
    EXPECT_NE(std::string(error.what()).find("behind layer 1 is not finite in window 2"),
              std::string::npos)
        << error.what();
  }
}

}  // namespace
}  // namespace cortiq::model::test
