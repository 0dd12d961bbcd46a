#include "cortiq/model/forward.hpp"

#include <algorithm>
#include <atomic>
#include <limits>
#include <vector>

#include "batches.hpp"
#include "cortiq/codec/decode.hpp"
#include "cortiq/model/layer_runner.hpp"
#include "cortiq/model/layer_stream.hpp"
#include "cortiq/model/layer_weights.hpp"
#include "experts.hpp"
#include "row_ops.hpp"

namespace cortiq::model {
namespace {

/// f32 bytes of the logits that run_head holds at once.
constexpr std::int64_t kLogitBytes = std::int64_t{64} << 20;
/// Rows that are embedded at a time.
constexpr std::int64_t kEmbedRows = 8192;

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
  void operator()(Role role, ConstMatrixView<float> x, std::int64_t expert = -1) const {
    if (observer_ != nullptr && observer_->wants(layer_, role, expert))
      observer_->observe({layer_, role, expert, x});
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

/// One layer over all windows.
struct Forward::LayerJob {
  const State& s;
  std::int64_t layer;
  const Windows& windows;
  const HiddenStates& held;
  Watch watch;
  const std::function<void(std::int64_t)>& on_batch;

  [[nodiscard]] MatrixView<float> rows(std::int64_t first, std::int64_t count) const {
    return held.view().block(first, 0, count, s.arch.hidden);
  }

  void mix(const Batch& batch, LayerRunner& runner, LayerScratch& scratch) const {
    const MatrixView<float> x = rows(batch.first_token, batch.tokens);
    runner.begin(batch.lengths, scratch);
    watch(Role::kIn, runner.attention_input(x));
    watch(Role::kMixOut, runner.mix());
    runner.add_mixer(x);
  }

  /// @param bad  row behind first_token that is not finite
  void check(std::int64_t first_token, std::optional<std::int64_t> bad) const {
    if (bad) fail_state_not_finite(s.source, windows, layer, first_token + *bad);
  }

  void run_dense(const std::vector<Batch>& batches, LayerRunner& runner,
                 LayerScratch& scratch) const {
    for (const Batch& batch : batches) {
      const MatrixView<float> x = rows(batch.first_token, batch.tokens);
      mix(batch, runner, scratch);
      watch(Role::kMlp, runner.mlp_input(x));
      watch(Role::kDown, runner.activate());
      check(batch.first_token, runner.add_mlp(x));
      held.release(batch.first_token, batch.tokens);
      if (on_batch) on_batch(batch.first_token + batch.tokens);
    }
  }

  /// The mixer batch by batch, then the experts over about kExpertRows rows at once.
  void run_experts(const std::vector<Batch>& batches, const LayerWeights& weights,
                   LayerRunner& runner, LayerScratch& scratch) const {
    ExpertLayer experts(s.arch, s.source, layer, weights,
                        std::min(windows.tokens(), std::max(kExpertRows, most_tokens(batches))),
                        s.options.batch_tokens, s.pool);
    for (std::size_t next = 0; next < batches.size();) {
      const std::int64_t first = batches[next].first_token;
      std::int64_t tokens = 0;
      do {
        mix(batches[next], runner, scratch);
        tokens += batches[next++].tokens;
        if (on_batch) on_batch(first);
      } while (next < batches.size() && tokens + batches[next].tokens <= kExpertRows);
      const auto observe = [&](Role role, std::int64_t expert, ConstMatrixView<float> x) {
        watch(role, x, expert);
      };
      const auto progress = [&](double share) {
        if (on_batch)
          on_batch(first + static_cast<std::int64_t>(share * static_cast<double>(tokens)));
      };
      check(first, experts.run(rows(first, tokens), {observe, progress}));
      held.release(first, tokens);
    }
  }
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
  const cmf::Payload payload = s.source.payload(index);  // its errors name file and tensor
  with_context(fmt::format("{}: tensor {}", s.source.path().string(), info.name), [&] {
    const codec::RowDecoder decoder(info.dtype, info.shape, payload.bytes());
    constexpr std::int64_t kGrainRows = 64;
    for (std::int64_t first = 0; first < windows.tokens(); first += kEmbedRows) {
      const std::int64_t count = std::min(kEmbedRows, windows.tokens() - first);
      const MatrixView<float> part = out.block(first, 0, count, out.cols());
      s.pool.for_ranges(count, kGrainRows, [&](std::int64_t begin, std::int64_t end) {
        for (std::int64_t i = begin; i < end; ++i) {
          const auto id = windows.ids[static_cast<std::size_t>(first + i)];
          decoder.decode(id, part.block(i, 0, 1, out.cols()));
        }
      });
      if (s.arch.embed_multiplier != 1.0F) scale_matrix(part, s.arch.embed_multiplier, s.pool);
      states.release(first, count);
    }
  });
  s.source.release(index);
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
  const LayerJob job{s, layer, windows, states, Watch(observer, layer), on_batch};
  if (has_experts(s.arch, layer)) {
    job.run_experts(batches, weights, runner, scratch);
  } else {
    job.run_dense(batches, runner, scratch);
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
    states.release(first, count);
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

std::int64_t Forward::rows_in_use(std::int64_t tokens) const {
  const bool experts = state_->arch.experts && state_->arch.experts->width > 0;
  return std::min(tokens, std::max(state_->options.batch_tokens, experts ? kExpertRows : 0));
}

std::uint64_t Forward::layer_memory_bytes(std::int64_t layer, std::int64_t tokens) const {
  const Arch& arch = state_->arch;
  const std::int64_t batch = std::min(state_->options.batch_tokens, tokens);
  std::uint64_t bytes = LayerStream::bytes(arch, state_->source, layer, batch);
  if (has_experts(arch, layer))
    bytes += ExpertLayer::bytes(arch, std::min(tokens, std::max(kExpertRows, batch)), batch);
  return bytes;
}

}  // namespace cortiq::model
