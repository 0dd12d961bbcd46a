#include "cortiq/model/expert_stream.hpp"

#include <algorithm>
#include <cmath>
#include <numeric>

#include "cortiq/model/forward.hpp"
#include "linear.hpp"
#include "routing.hpp"
#include "row_ops.hpp"

namespace cortiq::model {
namespace {

std::int64_t widest_mlp(const Arch& arch) {
  return std::max(arch.intermediate, arch.experts ? arch.experts->width : 0);
}

std::vector<float> panel(std::int64_t cols) {
  return std::vector<float>(static_cast<std::size_t>(ExpertStream::kPanelRows * cols));
}

}  // namespace

struct ExpertStream::State {
  State(const Stream& given, std::int64_t layer_index, Pool& workers)
      : stream(given),
        layer(layer_index),
        pool(workers),
        sum(given.states.rows(), given.arch.hidden, given.spill_folder),
        normed(panel(given.arch.hidden)),
        both(panel(2 * widest_mlp(given.arch))),
        output(panel(given.arch.hidden)) {}

  [[nodiscard]] std::span<const float> norm_weights() const {
    const LayerWeights& w = stream.weights;
    return stream.arch.sandwich_norms ? w.pre_mlp_norm : w.post_attention_norm;
  }
  /// Its product with the rows of `activated`, in the output panel.
  [[nodiscard]] MatrixView<float> project(const LinearStack& down,
                                          ConstMatrixView<float> activated) {
    const MatrixView<float> out(output.data(), activated.rows(), stream.arch.hidden);
    apply(down, activated, out, pool);
    return out;
  }

  Stream stream;
  std::int64_t layer;
  Pool& pool;
  HiddenStates sum;  // zero at first
  Routing routing;
  std::vector<float> shared;  // factor of the shared expert per row; empty: 1
  std::vector<float> normed;
  std::vector<float> both;
  std::vector<float> output;
};

ExpertStream::ExpertStream(const Stream& stream, std::int64_t layer, Pool& pool)
    : state_(std::make_unique<State>(stream, layer, pool)) {}
ExpertStream::~ExpertStream() = default;

void ExpertStream::input(std::int64_t first, MatrixView<float> out) const {
  const State& s = *state_;
  norm_rows(s.stream.states.block(first, 0, out.rows(), out.cols()), s.norm_weights(),
            s.stream.arch.norm_eps, out, s.pool);
}

void ExpertStream::input(std::span<const std::int32_t> rows, MatrixView<float> out) const {
  const State& s = *state_;
  gather_rows(s.stream.states, rows, out, s.pool);
  norm_rows(out, s.norm_weights(), s.stream.arch.norm_eps, out, s.pool);
}

void ExpertStream::route() {
  State& s = *state_;
  const LayerWeights& weights = s.stream.weights;
  const std::int64_t tokens = s.stream.states.rows();
  const std::int64_t width = weights.router.rows;
  const std::int64_t count = s.stream.arch.layer_experts[static_cast<std::size_t>(s.layer)];
  std::vector<float> values(static_cast<std::size_t>(tokens * width));
  const MatrixView<float> logits(values.data(), tokens, width);
  for (std::int64_t first = 0; first < tokens; first += kPanelRows) {
    const std::int64_t rows = std::min(kPanelRows, tokens - first);
    const MatrixView<float> x(s.normed.data(), rows, s.stream.arch.hidden);
    input(first, x);
    apply(weights.router, x, logits.block(first, 0, rows, width), s.pool);
    if (s.stream.after_panel) s.stream.after_panel();
  }
  s.routing.choose(*s.stream.arch.experts, logits.block(0, 0, tokens, count), weights.expert_bias,
                   s.pool);
  s.shared.clear();
  if (weights.router.parts.size() < 2) return;
  for (std::int64_t r = 0; r < tokens; ++r) {
    const auto logit = static_cast<double>(logits(r, width - 1));
    s.shared.push_back(static_cast<float>(1.0 / (1.0 + std::exp(-logit))));
  }
}

std::span<const std::int32_t> ExpertStream::rows(std::int64_t expert) const {
  return state_->routing.rows(expert);
}

ConstMatrixView<float> ExpertStream::activate(const LinearStack& gate_up,
                                              ConstMatrixView<float> x) {
  State& s = *state_;
  CORTIQ_ASSERT(x.rows() <= kPanelRows);
  const std::int64_t width = gate_up.rows / 2;
  const MatrixView<float> both(s.both.data(), x.rows(), 2 * width);
  apply(gate_up, x, both, s.pool);
  const MatrixView<float> gate = both.block(0, 0, x.rows(), width);
  activate_rows(s.stream.arch.activation, gate, both.block(0, width, x.rows(), width), s.pool);
  return gate;
}

void ExpertStream::add(std::int64_t expert, std::size_t first, const LinearStack& down,
                       ConstMatrixView<float> activated) {
  State& s = *state_;
  const auto count = static_cast<std::size_t>(activated.rows());
  add_scaled_rows(s.sum.view(), rows(expert).subspan(first, count),
                  s.routing.weights(expert).subspan(first, count), s.project(down, activated),
                  s.pool);
}

void ExpertStream::add_shared(std::int64_t first, const LinearStack& down,
                              ConstMatrixView<float> activated) {
  State& s = *state_;
  const auto count = static_cast<std::size_t>(activated.rows());
  std::vector<std::int32_t> index(count);
  std::iota(index.begin(), index.end(), static_cast<std::int32_t>(first));
  std::vector<float> factor(count, 1.0F);
  if (!s.shared.empty()) std::copy_n(s.shared.begin() + first, count, factor.begin());
  add_scaled_rows(s.sum.view(), index, factor, s.project(down, activated), s.pool);
}

void ExpertStream::release() const noexcept { state_->sum.release(0, state_->sum.view().rows()); }

std::optional<std::int64_t> ExpertStream::finish() {
  State& s = *state_;
  const std::vector<float>& norm = s.stream.weights.post_mlp_norm;
  const MatrixView<float> all = s.stream.states;
  for (std::int64_t first = 0; first < all.rows(); first += kPanelRows) {
    const std::int64_t rows = std::min(kPanelRows, all.rows() - first);
    const MatrixView<float> sum = s.sum.view().block(first, 0, rows, all.cols());
    if (!norm.empty()) norm_rows(sum, norm, s.stream.arch.norm_eps, sum, s.pool);
    const auto bad = add_matrix(all.block(first, 0, rows, all.cols()), sum, s.pool);
    if (bad) return first + *bad;
    release();
    if (s.stream.after_panel) s.stream.after_panel();
  }
  return std::nullopt;
}

std::uint64_t ExpertStream::scratch_bytes(const Arch& arch, std::int64_t tokens) {
  const std::int64_t experts =
      arch.layer_experts.empty()
          ? 0
          : *std::max_element(arch.layer_experts.begin(), arch.layer_experts.end());
  const std::int64_t panels = kPanelRows * 2 * (arch.hidden + widest_mlp(arch));
  const std::int64_t routing = tokens * (experts + 2 + 4 * (arch.experts ? arch.experts->top_k : 0));
  return static_cast<std::uint64_t>(panels + routing) * sizeof(float);
}

}  // namespace cortiq::model
