// The forward pass against the plain f64 reference, for every feature of the supported families.
#include "cortiq/model/forward.hpp"

#include <gtest/gtest.h>

#include <cmath>
#include <limits>

#include "reference_model.hpp"
#include "run_model.hpp"
#include "tiny_model.hpp"

namespace cortiq::model::test {
namespace {

TEST(Forward, LlamaWithGroupedHeadsMatchesReference) {
  MemorySource source = make_tiny({});
  expect_matches_reference(source, 150);
}

TEST(Forward, OneTokenWindowMatchesReference) {
  MemorySource source = make_tiny({});
  expect_matches_reference(source, 1);
}

TEST(Forward, OneKeyHeadForSevenQueryHeadsMatchesReference) {
  MemorySource source = make_tiny({.heads = 7, .kv_heads = 1, .head_dim = 10});
  expect_matches_reference(source, 70);
}

TEST(Forward, UntiedHeadMatchesReference) {
  MemorySource source = make_tiny({.tied = false});
  expect_matches_reference(source, 20);
}

TEST(Forward, BiasesOfQwen2MatchReference) {
  MemorySource source = make_tiny({.family = "qwen2", .bias = true});
  expect_matches_reference(source, 100);
}

TEST(Forward, HeadNormsOfQwen3MatchReference) {
  MemorySource source = make_tiny({.family = "qwen3", .head_dim = 32, .qk_norm = true});
  expect_matches_reference(source, 100);
}

TEST(Forward, HeadNormsBehindRotationMatchReference) {
  MemorySource source = make_tiny({.family = "qwen3", .qk_norm = true});
  source.arch["qk_norm_after_rope"] = true;
  expect_matches_reference(source, 50);
}

TEST(Forward, Gemma2WithCapsAndTaggedWindowMatchesReference) {
  MemorySource source = make_tiny({.family = "gemma2", .layers = 3, .sandwich = true});
  source.arch["hidden_act"] = "gelu_tanh";
  source.arch["embed_multiplier"] = 6.3245554;
  source.arch["query_pre_attn_scalar"] = 20.0;
  source.arch["attn_logit_softcapping"] = 5.0;
  source.arch["final_logit_softcapping"] = 9.0;
  source.arch["sliding_window"] = 37;
  source.arch["layer_types"] = {"SlidingAttention", "FullAttention", "SlidingAttention"};
  expect_matches_reference(source, 200, 1e-4);
}

TEST(Forward, Gemma3WithPatternAndLocalRotationMatchesReference) {
  MemorySource source =
      make_tiny({.family = "gemma3_text", .layers = 3, .qk_norm = true, .sandwich = true});
  source.arch["hidden_act"] = "gelu_tanh";
  source.arch["rope_theta"] = 1e6;
  source.arch["rope_local_base_freq"] = 10000.0;
  source.arch["rope_freq_factors"] = std::vector<double>(12, 8.0);
  source.arch["sliding_window"] = 64;
  source.arch["sliding_window_pattern"] = 3;
  expect_matches_reference(source, 200, 1e-4);
}

TEST(Forward, WindowOfOneTokenSeesOnlyItself) {
  MemorySource source = make_tiny({.family = "gemma2"});
  source.arch["sliding_window"] = 1;
  source.arch["layer_types"] = {"SlidingAttention", "SlidingAttention"};
  expect_matches_reference(source, 130);
}

TEST(Forward, FrequencyFactorsMatchReference) {
  MemorySource source = make_tiny({});
  std::vector<double> factors;
  for (int i = 0; i < 12; ++i) factors.push_back(1.0 + i * 0.5);
  source.arch["rope_freq_factors"] = factors;
  expect_matches_reference(source, 150);
}

TEST(Forward, YarnMatchesReference) {
  MemorySource source = make_tiny({});
  source.arch["yarn"] = {{"factor", 4.0},
                         {"original_max_position_embeddings", 64},
                         {"beta_fast", 8.0},
                         {"beta_slow", 1.0},
                         {"attention_factor", 1.2}};
  expect_matches_reference(source, 150);
}

TEST(Forward, PartialRotationAndErfGeluMatchReference) {
  MemorySource source = make_tiny({});
  source.arch["partial_rotary_factor"] = 0.5;
  source.arch["hidden_act"] = "gelu";
  expect_matches_reference(source, 100);
}

TEST(Forward, EachWindowIsItsOwnContext) {
  MemorySource source = make_tiny({.family = "gemma2"});
  source.arch["sliding_window"] = 20;
  source.arch["layer_types"] = {"SlidingAttention", "FullAttention"};
  source.finish();
  Pool pool(2);
  Windows together;
  Values separate;
  for (const std::size_t length : {5U, 130U, 1U, 64U, 49U}) {
    const auto ids = random_ids(length, 97, static_cast<unsigned>(length));
    together.add(ids);
    Windows alone;
    alone.add(ids);
    const Values logits = run_model(source, alone, pool).logits;
    separate.insert(separate.end(), logits.begin(), logits.end());
  }
  EXPECT_EQ(separate, run_model(source, together, pool).logits);
}

TEST(Forward, BitsDependNeitherOnThreadsNorOnBatchSize) {
  MemorySource source = make_tiny({.hidden = 96, .head_dim = 32, .intermediate = 144});
  expect_same_bits(source);
}

TEST(Forward, LaterTokensDoNotChangeEarlierLogits) {
  MemorySource source = make_tiny({});
  source.finish();
  const auto ids = random_ids(170, 97, 11);
  Windows whole;
  whole.add(ids);
  Pool pool(2);
  const Values logits = run_model(source, whole, pool).logits;
  for (const std::size_t length : {1U, 47U, 64U, 65U, 100U}) {
    Windows prefix;
    prefix.add(std::span(ids).first(length));
    const auto end = logits.begin() + static_cast<std::ptrdiff_t>(length * 97);
    EXPECT_EQ(run_model(source, prefix, pool).logits, Values(logits.begin(), end)) << length;
  }
}

TEST(Forward, LargeResidualStreamStaysFinite) {
  MemorySource source = make_tiny({});
  source.finish();
  for (float& value : source.values("model.layers.0.mlp.down_proj.weight")) value *= 5e4F;
  const auto ids = random_ids(60, 97, 3);
  const ReferenceRun want = run_reference(source, ids);
  Windows windows;
  windows.add(ids);
  Pool pool(2);
  const Result got = run_model(source, windows, pool);
  double largest = 0;
  for (const double value : want.layers[1]) largest = std::max(largest, std::fabs(value));
  EXPECT_GT(largest, 7e4);
  expect_close(want.layers[2], got.layers[2], "residual stream");
  expect_close(want.logits, got.logits, "logits");
}

TEST(Forward, SpilledStatesGiveTheSameBits) {
  MemorySource source = make_tiny({});
  source.finish();
  Windows windows;
  windows.add(random_ids(90, 97, 3));
  Pool pool(2);
  const Values want = run_model(source, windows, pool).layers.back();
  const Forward forward(source, pool, {2048, std::filesystem::temp_directory_path()});
  HiddenStates states = forward.embed(windows);
  for (std::int64_t layer = 0; layer < 2; ++layer)
    forward.run_layer(layer, windows, states, nullptr);
  EXPECT_EQ(want, to_values(states.view()));
}

TEST(Forward, SpillFolderThatIsMissingIsNamed) {
  try {
    const HiddenStates states(10, 10, "/nonexistent-folder-for-states");
    FAIL() << "no error";
  } catch (const Error& error) {
    EXPECT_EQ(error.kind(), ErrorKind::kIo);
    EXPECT_NE(std::string(error.what()).find("/nonexistent-folder-for-states"), std::string::npos);
  }
}

TEST(Forward, ErrorNamesTokenIdOutsideTheTable) {
  MemorySource source = make_tiny({});
  source.finish();
  Pool pool(1);
  const Forward forward(source, pool);
  Windows windows;
  windows.add(std::vector<TokenId>{3, 97, 5, 98});
  try {
    static_cast<void>(forward.embed(windows));
    FAIL() << "no error";
  } catch (const Error& error) {
    EXPECT_EQ(error.kind(), ErrorKind::kInput);
    EXPECT_NE(std::string(error.what()).find("token id 97"), std::string::npos) << error.what();
    EXPECT_NE(std::string(error.what()).find("2 such tokens"), std::string::npos) << error.what();
  }
}

TEST(Forward, ErrorNamesLayerAndWindowOfNonFiniteState) {
  MemorySource source = make_tiny({});
  source.finish();
  source.values("model.embed_tokens.weight")[5 * 40] = std::numeric_limits<float>::quiet_NaN();
  Pool pool(2);
  const Forward forward(source, pool, {64, std::nullopt});
  Windows windows;
  for (int i = 0; i < 9; ++i) windows.add(std::vector<TokenId>(30, i == 4 ? 5 : 6));
  HiddenStates states = forward.embed(windows);
  try {
    forward.run_layer(0, windows, states, nullptr);
    FAIL() << "no error";
  } catch (const Error& error) {
    EXPECT_EQ(error.kind(), ErrorKind::kNumeric);
    EXPECT_NE(std::string(error.what()).find("layer 0"), std::string::npos) << error.what();
    EXPECT_NE(std::string(error.what()).find("window 4"), std::string::npos) << error.what();
  }
}

TEST(Forward, NanInKeyWeightsIsFound) {
  MemorySource source = make_tiny({});
  source.finish();
  source.values("model.layers.1.self_attn.k_proj.weight")[3] =
      std::numeric_limits<float>::quiet_NaN();
  Pool pool(2);
  const Forward forward(source, pool);
  Windows windows;
  windows.add(random_ids(30, 97, 1));
  HiddenStates states = forward.embed(windows);
  forward.run_layer(0, windows, states, nullptr);
  EXPECT_THROW(forward.run_layer(1, windows, states, nullptr), Error);
}

}  // namespace
}  // namespace cortiq::model::test
