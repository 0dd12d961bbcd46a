#include "cortiq/model/layer_stream.hpp"

#include <algorithm>
#include <vector>

#include "batches.hpp"
#include "cortiq/model/layer_runner.hpp"

namespace cortiq::model {

struct LayerStream::State {
  State(const Stream& given, std::int64_t layer_index, Pool& pool)
      : stream(given),
        layer(layer_index),
        batches(make_batches(given.windows, given.batch_tokens)),
        weights(load_layer(given.arch, given.source, layer_index, pool)),
        scratch(given.arch, most_tokens(batches)),
        runner(given.arch, layer_index, weights, longest(given.windows), pool) {}

  [[nodiscard]] const Batch& begin(std::int64_t batch) {
    const Batch& b = batches[static_cast<std::size_t>(batch)];
    runner.begin(b.lengths, scratch);
    return b;
  }

  Stream stream;
  std::int64_t layer;
  std::vector<Batch> batches;
  LayerWeights weights;
  LayerScratch scratch;
  LayerRunner runner;
};

LayerStream::LayerStream(const Stream& stream, std::int64_t layer, Pool& pool)
    : state_(std::make_unique<State>(stream, layer, pool)) {}
LayerStream::~LayerStream() = default;

LayerWeights& LayerStream::weights() { return state_->weights; }
std::int64_t LayerStream::batches() const {
  return static_cast<std::int64_t>(state_->batches.size());
}
std::int64_t LayerStream::first_token(std::int64_t batch) const {
  return state_->batches[static_cast<std::size_t>(batch)].first_token;
}
MatrixView<float> LayerStream::rows(std::int64_t batch) const {
  const Batch& b = state_->batches[static_cast<std::size_t>(batch)];
  return state_->stream.states.block(b.first_token, 0, b.tokens, state_->stream.arch.hidden);
}

ConstMatrixView<float> LayerStream::attention_input(std::int64_t batch) {
  static_cast<void>(state_->begin(batch));
  return state_->runner.attention_input(rows(batch));
}

ConstMatrixView<float> LayerStream::mix(std::int64_t batch) {
  static_cast<void>(attention_input(batch));
  return state_->runner.mix();
}

void LayerStream::add_mixer(std::int64_t batch, ConstMatrixView<float> mixed) {
  static_cast<void>(state_->begin(batch));
  state_->runner.add_mixer(rows(batch), mixed);
}

ConstMatrixView<float> LayerStream::mlp_input(std::int64_t batch) {
  static_cast<void>(state_->begin(batch));
  return state_->runner.mlp_input(rows(batch));
}

ConstMatrixView<float> LayerStream::activate(std::int64_t batch) {
  static_cast<void>(mlp_input(batch));
  return state_->runner.activate();
}

void LayerStream::add_mlp(std::int64_t batch, ConstMatrixView<float> activated) {
  State& s = *state_;
  const Batch& b = s.begin(batch);
  const auto bad = s.runner.add_mlp(rows(batch), activated);
  if (bad) fail_state_not_finite(s.stream.source, s.stream.windows, s.layer, b.first_token + *bad);
}

std::uint64_t LayerStream::bytes(const Arch& arch, const cmf::Source& source, std::int64_t layer,
                                 std::int64_t batch_tokens) {
  return layer_weight_bytes(source, layer) +
         LayerScratch::bytes(arch, batch_tokens, !has_experts(arch, layer));
}

void fail_state_not_finite(const cmf::Source& source, const Windows& windows, std::int64_t layer,
                           std::int64_t token) {
  const auto end = std::upper_bound(windows.offsets.begin(), windows.offsets.end(), token);
  fail(ErrorKind::kNumeric,
       "{}: hidden state behind layer {} is not finite in window {}; the weights of this layer "
       "are damaged or overflow 32-bit floats",
       source.path().string(), layer, end - windows.offsets.begin() - 1);
}

}  // namespace cortiq::model
