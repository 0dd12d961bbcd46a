#include "cortiq/model/forward.hpp"

#include <algorithm>
#include <atomic>
#include <limits>
#include <vector>

#include "batches.hpp"
#include "cortiq/codec/decode.hpp"
#include "cortiq/model/layer_runner.hpp"
#include "cortiq/model/layer_weights.hpp"
#include "row_ops.hpp"

namespace cortiq::model {
namespace {

/// f32 bytes of the logits that run_head holds at once.
constexpr std::int64_t kLogitBytes = std::int64_t{64} << 20;

std::int64_t longest(const Windows& windows) {
  std::int64_t most = 0;
  for (std::int64_t i = 0; i < windows.count(); ++i) most = std::max(most, windows.length(i));
  return most;
}

std::int64_t most_tokens(const std::vector<Batch>& batches) {
  std::int64_t most = 0;
  for (const Batch& batch : batches) most = std::max(most, batch.tokens);
  return most;
}

std::int64_t window_of(const Windows& windows, std::int64_t token) {
  const auto end = std::upper_bound(windows.offsets.begin(), windows.offsets.end(), token);
  return end - windows.offsets.begin() - 1;
}

void check_ids(const Windows& windows, std::int64_t vocab, const std::string& where) {
  std::int64_t outside = 0;
  TokenId example = 0;
  for (const TokenId id : windows.ids) {
    if (id >= 0 && id < vocab) continue;
    if (outside == 0) example = id;
    ++outside;
  }
  if (outside > 0) {
    fail(ErrorKind::kInput,
         "{}: token id {} has no row in the embedding of {} rows ({} such tokens); the tokenizer "
         "belongs to another model",
         where, example, vocab, outside);
  }
}

/// Offers rows to the observer, if there is one that wants them.
class Watch {
 public:
  Watch(LinearObserver* observer, std::int64_t layer) : observer_(observer), layer_(layer) {}
  void operator()(Role role, ConstMatrixView<float> x) const {
    if (observer_ != nullptr && observer_->wants(layer_, role, -1))
      observer_->observe({layer_, role, -1, x});
  }

 private:
  LinearObserver* observer_;
  std::int64_t layer_;
};

}  // namespace

struct Forward::State {
  State(const cmf::Source& model_source, Pool& model_pool, ForwardOptions model_options)
      : source(model_source),
        pool(model_pool),
        options(std::move(model_options)),
        arch(read_arch(source)),
        head(arch, source, pool) {}

  const cmf::Source& source;
  Pool& pool;
  ForwardOptions options;
  Arch arch;
  Head head;
};

Forward::Forward(const cmf::Source& source, Pool& pool, ForwardOptions options)
    : state_(std::make_unique<State>(source, pool, std::move(options))) {
  CORTIQ_ASSERT(state_->options.batch_tokens > 0);
}
Forward::~Forward() = default;

const Arch& Forward::arch() const { return state_->arch; }
const Head& Forward::head() const { return state_->head; }
Pool& Forward::pool() const { return state_->pool; }

HiddenStates Forward::embed(const Windows& windows) const {
  const State& s = *state_;
  check_ids(windows, s.arch.vocab, s.source.path().string());
  HiddenStates states(windows.tokens(), s.arch.hidden, s.options.spill_folder);
  const MatrixView<float> out = states.view();
  const std::size_t index = s.source.find("model.embed_tokens.weight").value();
  const cmf::TensorInfo& info = s.source.tensors()[index];
  with_context(fmt::format("{}: tensor {}", s.source.path().string(), info.name), [&] {
    const cmf::Payload payload = s.source.payload(index);
    const codec::RowDecoder decoder(info.dtype, info.shape, payload.bytes());
    constexpr std::int64_t kGrainRows = 64;
    s.pool.for_ranges(windows.tokens(), kGrainRows, [&](std::int64_t begin, std::int64_t end) {
      for (std::int64_t i = begin; i < end; ++i) {
        decoder.decode(windows.ids[static_cast<std::size_t>(i)], out.block(i, 0, 1, out.cols()));
      }
    });
  });
  if (s.arch.embed_multiplier != 1.0F) scale_matrix(out, s.arch.embed_multiplier, s.pool);
  return states;
}

void Forward::run_layer(std::int64_t layer, const Windows& windows, HiddenStates& states,
                        LinearObserver* observer,
                        const std::function<void(std::int64_t)>& on_batch) const {
  const State& s = *state_;
  CORTIQ_ASSERT(layer >= 0 && layer < s.arch.layers && states.view().rows() == windows.tokens());
  const LayerWeights weights = load_layer(s.arch, s.source, layer, s.pool);
  const std::vector<Batch> batches = make_batches(windows, s.options.batch_tokens);
  LayerScratch scratch(s.arch, most_tokens(batches));
  LayerRunner runner(s.arch, layer, weights, longest(windows), s.pool);
  const Watch watch(observer, layer);
  std::int64_t done = 0;
  for (const Batch& batch : batches) {
    const MatrixView<float> rows =
        states.view().block(batch.first_token, 0, batch.tokens, s.arch.hidden);
    runner.begin(batch.lengths, scratch);
    watch(Role::kIn, runner.attention_input(rows));
    watch(Role::kMixOut, runner.mix());
    runner.add_mixer(rows);
    watch(Role::kMlp, runner.mlp_input(rows));
    watch(Role::kDown, runner.activate());
    if (const auto bad = runner.add_mlp(rows)) {
      fail(ErrorKind::kNumeric,
           "{}: hidden state behind layer {} is not finite in window {}; the weights of this layer "
           "are damaged or "
           "overflow 32-bit floats",
           s.source.path().string(), layer, window_of(windows, batch.first_token + *bad));
    }
    done += batch.tokens;
    if (on_batch) on_batch(done);
  }
}

void Forward::run_head(const Windows& windows, const HiddenStates& states, LinearObserver* observer,
                       const LogitSink& sink) const {
  const State& s = *state_;
  const Watch watch(observer, s.arch.layers);
  const std::int64_t most =
      sink ? kLogitBytes / static_cast<std::int64_t>(sizeof(float)) / s.arch.vocab
           : s.options.batch_tokens;
  const std::int64_t step = std::clamp<std::int64_t>(most, 1, s.options.batch_tokens);
  const std::int64_t rows = std::min(step, windows.tokens());
  const std::int64_t block_rows = s.head.block_rows();
  std::vector<float> normed(static_cast<std::size_t>(rows * s.arch.hidden));
  std::vector<float> logits(sink ? static_cast<std::size_t>(rows * s.arch.vocab) : 0);
  std::vector<float> block(sink ? static_cast<std::size_t>(block_rows * s.arch.hidden) : 0);
  std::int64_t held = -1;  // first vocabulary row of what `block` holds
  for (std::int64_t first = 0; first < windows.tokens(); first += step) {
    const std::int64_t count = std::min(step, windows.tokens() - first);
    const MatrixView<float> x(normed.data(), count, s.arch.hidden);
    s.head.norm(states.view().block(first, 0, count, s.arch.hidden), x);
    watch(Role::kHead, x);
    if (!sink) continue;
    const MatrixView<float> out(logits.data(), count, s.arch.vocab);
    for (std::int64_t v = 0; v < s.arch.vocab; v += block_rows) {
      const std::int64_t width = std::min(block_rows, s.arch.vocab - v);
      const MatrixView<float> weight(block.data(), width, s.arch.hidden);
      if (held != v) s.head.decode(v, weight);
      held = v;
      s.head.logits(x, weight, out.block(0, v, count, width));
    }
    sink(first, out);
  }
}

std::uint64_t Forward::layer_memory_bytes() const {
  const Arch& arch = state_->arch;
  const std::int64_t qkv =
      (arch.heads + arch.kv_heads) * arch.head_dim + arch.kv_heads * arch.v_head_dim;
  const std::int64_t values =
      arch.hidden * (qkv + arch.heads * arch.v_head_dim + 3 * arch.intermediate);
  return static_cast<std::uint64_t>(values) * sizeof(float) +
         LayerScratch::bytes(arch, state_->options.batch_tokens);
}

}  // namespace cortiq::model
