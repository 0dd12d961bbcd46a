#include "cortiq/model/layer_runner.hpp"

#include <algorithm>
#include <vector>

#include "attention.hpp"
#include "delta_net.hpp"
#include "linear.hpp"
#include "row_ops.hpp"

namespace cortiq::model {
namespace {

std::int64_t attention_width(const Arch& arch) {
  return query_width(arch) + arch.kv_heads * (arch.head_dim + arch.v_head_dim);
}
/// Outputs of the in-projections, the widest of all layers.
std::int64_t in_width(const Arch& arch) {
  return std::max(attention_width(arch), arch.delta_net ? arch.delta_net->in_width() : 0);
}
/// Columns of the mixer's output, the widest of all layers.
std::int64_t mix_width(const Arch& arch) {
  return std::max(arch.heads * arch.v_head_dim, arch.delta_net ? arch.delta_net->value_width() : 0);
}

}  // namespace

struct LayerScratch::State {
  /// Not initialised: every stage writes before the next one reads.
  using Buffer = std::unique_ptr<float[]>;
  State(const Arch& arch, std::int64_t most_rows) : rows(most_rows) {
    const auto allocate = [&](std::int64_t width) {
      return std::make_unique_for_overwrite<float[]>(static_cast<std::size_t>(most_rows * width));
    };
    normed = allocate(arch.hidden);
    projected = allocate(in_width(arch));
    mixed = allocate(mix_width(arch));
    gate_up = allocate(2 * arch.intermediate);
    branch = allocate(arch.hidden);
  }
  std::int64_t rows;
  Buffer normed;
  Buffer projected;
  Buffer mixed;
  Buffer gate_up;
  Buffer branch;  // output of mixer or MLP before it joins the residual stream
  AttentionBuffers attention;
};

LayerScratch::LayerScratch(const Arch& arch, std::int64_t rows)
    : state_(std::make_unique<State>(arch, rows)) {}
LayerScratch::~LayerScratch() = default;
LayerScratch::LayerScratch(LayerScratch&&) noexcept = default;

std::uint64_t LayerScratch::bytes(const Arch& arch, std::int64_t rows, bool with_mlp) {
  const std::int64_t width = 2 * arch.hidden + in_width(arch) + mix_width(arch) +
                             (with_mlp ? 2 * arch.intermediate : 0);
  return static_cast<std::uint64_t>(rows * width) * sizeof(float) +
         AttentionBuffers::bytes(arch, rows);
}

struct LayerRunner::State {
  const Arch& arch;
  const LayerWeights& weights;
  Pool& pool;
  std::int64_t layer;
  bool sliding;
  RopeTable rope;
  std::vector<WindowRows> windows;
  std::int64_t rows = 0;
  LayerScratch::State* scratch = nullptr;

  [[nodiscard]] MatrixView<float> part(const LayerScratch::State::Buffer& values,
                                       std::int64_t width) const {
    return {values.get(), rows, width};
  }
  [[nodiscard]] MatrixView<float> normed() const { return part(scratch->normed, arch.hidden); }
  [[nodiscard]] MatrixView<float> branch() const { return part(scratch->branch, arch.hidden); }
  [[nodiscard]] MatrixView<float> mixed() const {
    return part(scratch->mixed, mixer_width(arch, layer));
  }
  [[nodiscard]] std::int64_t mlp_width() const { return weights.down.cols; }
  [[nodiscard]] MatrixView<float> gate_up() const {
    return part(scratch->gate_up, 2 * mlp_width());
  }
  [[nodiscard]] MatrixView<float> gate() const { return gate_up().block(0, 0, rows, mlp_width()); }

  /// The branch output, normed if the layer has a norm for it, joins the residual stream.
  std::optional<std::int64_t> join(MatrixView<float> states, std::span<const float> norm) const {
    if (!norm.empty()) norm_rows(branch(), norm, arch.norm_eps, branch(), pool);
    return add_matrix(states, branch(), pool);
  }
};

LayerRunner::LayerRunner(const Arch& arch, std::int64_t layer, const LayerWeights& weights,
                         std::int64_t positions, Pool& pool) {
  const bool sliding = arch.layer_types[static_cast<std::size_t>(layer)] == LayerType::kSliding;
  state_ = std::unique_ptr<State>(new State{arch,
                                            weights,
                                            pool,
                                            layer,
                                            sliding,
                                            make_rope_table(arch, sliding, positions),
                                            {},
                                            0,
                                            nullptr});
}
LayerRunner::~LayerRunner() = default;

void LayerRunner::begin(std::span<const std::int64_t> window_lengths, LayerScratch& scratch) {
  state_->windows.clear();
  state_->rows = 0;
  for (const std::int64_t length : window_lengths) {
    CORTIQ_ASSERT(length <= state_->rope.positions);
    state_->windows.push_back({state_->rows, length});
    state_->rows += length;
  }
  state_->scratch = scratch.state_.get();
  CORTIQ_ASSERT(state_->rows <= state_->scratch->rows);
}

ConstMatrixView<float> LayerRunner::attention_input(ConstMatrixView<float> states) {
  norm_rows(states, state_->weights.input_norm, state_->arch.norm_eps, state_->normed(),
            state_->pool);
  return state_->normed();
}

ConstMatrixView<float> LayerRunner::mix() {
  State& s = *state_;
  const MatrixView<float> projected = s.part(s.scratch->projected, s.weights.in.rows);
  apply(s.weights.in, s.normed(), projected, s.pool);
  if (is_linear(s.arch, s.layer)) {
    delta_net(s.arch, s.weights.delta, s.windows, projected, s.mixed(), s.pool);
  } else {
    attention(s.arch, s.sliding, s.weights, s.rope, s.windows, projected, s.mixed(),
              s.scratch->attention, s.pool);
  }
  return s.mixed();
}

void LayerRunner::add_mixer(MatrixView<float> states) { add_mixer(states, state_->mixed()); }

void LayerRunner::add_mixer(MatrixView<float> states, ConstMatrixView<float> mixed) {
  State& s = *state_;
  apply(s.weights.mix_out, mixed, s.branch(), s.pool);
  // A value that is not finite stays in the stream, so add_mlp reports it.
  static_cast<void>(s.join(states, s.arch.sandwich_norms
                                       ? std::span<const float>(s.weights.post_attention_norm)
                                       : std::span<const float>()));
}

ConstMatrixView<float> LayerRunner::mlp_input(ConstMatrixView<float> states) {
  State& s = *state_;
  const std::vector<float>& norm =
      s.arch.sandwich_norms ? s.weights.pre_mlp_norm : s.weights.post_attention_norm;
  norm_rows(states, norm, s.arch.norm_eps, s.normed(), s.pool);
  return s.normed();
}

ConstMatrixView<float> LayerRunner::activate() {
  State& s = *state_;
  CORTIQ_ASSERT(!has_experts(s.arch, s.layer));
  apply(s.weights.mlp, s.normed(), s.gate_up(), s.pool);
  activate_rows(s.arch.activation, s.gate(),
                s.gate_up().block(0, s.mlp_width(), s.rows, s.mlp_width()), s.pool);
  return s.gate();
}

std::optional<std::int64_t> LayerRunner::add_mlp(MatrixView<float> states) {
  return add_mlp(states, state_->gate());
}

std::optional<std::int64_t> LayerRunner::add_mlp(MatrixView<float> states,
                                                 ConstMatrixView<float> activated) {
  State& s = *state_;
  apply(s.weights.down, activated, s.branch(), s.pool);
  return s.join(states, s.weights.post_mlp_norm);
}

}  // namespace cortiq::model
