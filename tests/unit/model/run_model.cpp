#include "run_model.hpp"

#include <gtest/gtest.h>

#include <algorithm>
#include <cmath>
#include <random>

namespace cortiq::model::test {
namespace {

/// Collects what the linear layers read, by the reference's keys.
class Recorder final : public LinearObserver {
 public:
  bool wants(std::int64_t, Role, std::int64_t) const override { return true; }
  void observe(const LinearInput& input) override {
    std::string key(role_name(input.role));
    if (input.role != Role::kHead) key = std::to_string(input.layer) + "." + key;
    if (input.expert >= 0) key += "." + std::to_string(input.expert);
    Values& values = inputs[key];
    for (std::int64_t r = 0; r < input.x.rows(); ++r) {
      values.insert(values.end(), input.x.row(r), input.x.row(r) + input.x.cols());
    }
  }
  std::map<std::string, Values> inputs;
};

}  // namespace

std::vector<TokenId> random_ids(std::size_t count, std::int64_t vocab, unsigned seed) {
  std::mt19937 engine(seed);
  std::vector<TokenId> ids(count);
  for (TokenId& id : ids) id = static_cast<TokenId>(engine() % static_cast<unsigned>(vocab));
  return ids;
}

Values to_values(ConstMatrixView<float> m) {
  Values values;
  for (std::int64_t r = 0; r < m.rows(); ++r)
    values.insert(values.end(), m.row(r), m.row(r) + m.cols());
  return values;
}

Result run_model(const MemorySource& source, const Windows& windows, Pool& pool,
                 std::int64_t batch_tokens) {
  const Forward forward(source, pool, {batch_tokens, std::nullopt});
  Recorder recorder;
  Result result;
  HiddenStates states = forward.embed(windows);
  result.layers.push_back(to_values(states.view()));
  for (std::int64_t layer = 0; layer < forward.arch().layers; ++layer) {
    forward.run_layer(layer, windows, states, &recorder);
    result.layers.push_back(to_values(states.view()));
  }
  forward.run_head(
      windows, states, &recorder, [&](std::int64_t first, ConstMatrixView<float> logits) {
        EXPECT_EQ(first * logits.cols(), static_cast<std::int64_t>(result.logits.size()));
        const Values more = to_values(logits);
        result.logits.insert(result.logits.end(), more.begin(), more.end());
      });
  result.inputs = std::move(recorder.inputs);
  return result;
}

void expect_close(const Values& want, const Values& got, const std::string& what,
                  double tolerance) {
  ASSERT_EQ(want.size(), got.size()) << what;
  double largest = 0;
  double worst = 0;
  for (std::size_t i = 0; i < want.size(); ++i) {
    largest = std::max(largest, std::fabs(want[i]));
    worst = std::max(worst, std::fabs(want[i] - got[i]));
  }
  EXPECT_LE(worst, tolerance * largest) << what << ", largest value " << largest;
}

void expect_matches_reference(MemorySource& source, std::size_t tokens, double tolerance) {
  source.finish();
  const auto ids = random_ids(tokens, source.arch["vocab_size"].get<std::int64_t>(), 7);
  const ReferenceRun want = run_reference(source, ids);
  for (const SimdLevel level : {SimdLevel::kPortable, SimdLevel::kAvx2, SimdLevel::kAvx512}) {
    if (level > detect_simd()) continue;
    Pool pool(2, level);
    Windows windows;
    windows.add(ids);
    const Result got = run_model(source, windows, pool);
    const std::string simd(simd_name(level));
    for (std::size_t i = 0; i < want.layers.size(); ++i) {
      expect_close(want.layers[i], got.layers[i], simd + " layer " + std::to_string(i), tolerance);
    }
    ASSERT_EQ(want.inputs.size(), got.inputs.size());
    for (const auto& [key, values] : want.inputs)
      expect_close(values, got.inputs.at(key), simd + " " + key, tolerance);
    expect_close(want.logits, got.logits, simd + " logits", tolerance);
  }
}

void expect_same_bits(MemorySource& source) {
  source.finish();
  const auto vocab = source.arch["vocab_size"].get<std::int64_t>();
  Windows windows;
  for (unsigned i = 0; i < 9; ++i) windows.add(random_ids(40 + 37 * i, vocab, i));
  Pool one(1);
  const Result want = run_model(source, windows, one, 2048);
  for (const int threads : {1, 2, 7}) {
    for (const std::int64_t batch : {64, 1000, 2048}) {
      Pool pool(threads);
      const Result got = run_model(source, windows, pool, batch);
      EXPECT_EQ(want.layers, got.layers) << threads << " threads, batch of " << batch;
      EXPECT_EQ(want.logits, got.logits) << threads << " threads, batch of " << batch;
      EXPECT_EQ(want.inputs, got.inputs) << threads << " threads, batch of " << batch;
    }
  }
}

}  // namespace cortiq::model::test
