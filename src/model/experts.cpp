#include "experts.hpp"

#include <algorithm>
#include <cmath>
#include <numeric>

#include "linear.hpp"
#include "row_ops.hpp"

namespace cortiq::model {
namespace {

std::unique_ptr<float[]> panel(std::int64_t rows, std::int64_t cols) {
  return std::make_unique_for_overwrite<float[]>(static_cast<std::size_t>(rows * cols));
}

std::int64_t widest_mlp(const Arch& arch) {
  return std::max(arch.intermediate, arch.experts ? arch.experts->width : 0);
}

}  // namespace

ExpertLayer::ExpertLayer(const Arch& arch, const cmf::Source& source, std::int64_t layer,
                         const LayerWeights& weights, std::int64_t rows, std::int64_t panel_rows,
                         Pool& pool)
    : arch_(arch),
      source_(source),
      layer_(layer),
      weights_(weights),
      panel_rows_(std::min(rows, panel_rows)),
      pool_(pool),
      normed_(panel(rows, arch.hidden)),
      sum_(panel(rows, arch.hidden)),
      input_(panel(panel_rows_, arch.hidden)),
      gate_up_(panel(panel_rows_, 2 * widest_mlp(arch))),
      output_(panel(panel_rows_, arch.hidden)) {}

std::uint64_t ExpertLayer::bytes(const Arch& arch, std::int64_t rows, std::int64_t panel_rows) {
  const std::int64_t values = 2 * rows * arch.hidden +
                              panel_rows * 2 * (arch.hidden + widest_mlp(arch)) +
                              3 * arch.hidden * arch.experts->width;
  return static_cast<std::uint64_t>(values) * sizeof(float);
}

std::optional<std::int64_t> ExpertLayer::run(MatrixView<float> states, const Callbacks& callbacks) {
  const MatrixView<float> normed(normed_.get(), states.rows(), arch_.hidden);
  const MatrixView<float> sum(sum_.get(), states.rows(), arch_.hidden);
  norm_rows(states, arch_.sandwich_norms ? weights_.pre_mlp_norm : weights_.post_attention_norm,
            arch_.norm_eps, normed, pool_);
  route(normed, callbacks);
  std::fill_n(sum.data(), sum.rows() * sum.cols(), 0.0F);
  const std::int64_t count = arch_.layer_experts[static_cast<std::size_t>(layer_)];
  for (std::int64_t expert = 0; expert < count; ++expert) {
    run_expert(expert, normed, sum, callbacks);
    if (callbacks.progress)
      callbacks.progress(static_cast<double>(expert + 1) / static_cast<double>(count));
  }
  if (weights_.mlp.rows > 0) run_shared(normed, sum, callbacks);
  if (!weights_.post_mlp_norm.empty())
    norm_rows(sum, weights_.post_mlp_norm, arch_.norm_eps, sum, pool_);
  return add_matrix(states, sum, pool_);
}

void ExpertLayer::route(ConstMatrixView<float> normed, const Callbacks& callbacks) {
  const std::int64_t width = weights_.router.rows;
  const std::int64_t count = arch_.layer_experts[static_cast<std::size_t>(layer_)];
  logits_.resize(static_cast<std::size_t>(normed.rows() * width));
  const MatrixView<float> logits(logits_.data(), normed.rows(), width);
  for (std::int64_t r = 0; r < normed.rows(); r += panel_rows_) {
    const std::int64_t rows = std::min(panel_rows_, normed.rows() - r);
    callbacks.observe(Role::kMlp, -1, normed.block(r, 0, rows, normed.cols()));
  }
  apply(weights_.router, normed, logits, pool_);
  routing_.choose(*arch_.experts, logits.block(0, 0, normed.rows(), count), weights_.expert_bias,
                  pool_);
}

void ExpertLayer::run_expert(std::int64_t expert, ConstMatrixView<float> normed,
                             MatrixView<float> sum, const Callbacks& callbacks) {
  const std::span<const std::int32_t> all = routing_.rows(expert);
  if (all.empty()) return;
  load_expert(source_, layer_, expert, expert_, pool_);
  const auto step = static_cast<std::size_t>(panel_rows_);
  for (std::size_t first = 0; first < all.size(); first += step) {
    const auto rows = all.subspan(first, std::min(step, all.size() - first));
    const MatrixView<float> x(input_.get(), static_cast<std::int64_t>(rows.size()), arch_.hidden);
    gather_rows(normed, rows, x, pool_);
    callbacks.observe(Role::kExpertIn, expert, x);
    const auto y = mlp(expert_.mlp, expert_.down, x, Role::kExpertDown, expert, callbacks);
    add_scaled_rows(sum, rows, routing_.weights(expert).subspan(first, rows.size()), y, pool_);
  }
}

void ExpertLayer::run_shared(ConstMatrixView<float> normed, MatrixView<float> sum,
                             const Callbacks& callbacks) {
  const std::int64_t width = weights_.router.rows;
  const bool gated = weights_.router.parts.size() > 1;
  std::vector<std::int32_t> index(static_cast<std::size_t>(panel_rows_));
  std::vector<float> factor(index.size(), 1.0F);
  for (std::int64_t first = 0; first < normed.rows(); first += panel_rows_) {
    const std::int64_t rows = std::min(panel_rows_, normed.rows() - first);
    const auto y = mlp(weights_.mlp, weights_.down, normed.block(first, 0, rows, arch_.hidden),
                       Role::kSharedDown, -1, callbacks);
    std::iota(index.begin(), index.end(), static_cast<std::int32_t>(first));
    for (std::int64_t r = 0; gated && r < rows; ++r) {
      const float logit = logits_[static_cast<std::size_t>((first + r) * width + width - 1)];
      factor[static_cast<std::size_t>(r)] =
          static_cast<float>(1.0 / (1.0 + std::exp(-static_cast<double>(logit))));
    }
    add_scaled_rows(sum, index, factor, y, pool_);
  }
}

ConstMatrixView<float> ExpertLayer::mlp(const LinearStack& gate_up, const LinearStack& down,
                                        ConstMatrixView<float> x, Role role, std::int64_t expert,
                                        const Callbacks& callbacks) {
  const std::int64_t width = down.cols;
  const MatrixView<float> both(gate_up_.get(), x.rows(), 2 * width);
  const MatrixView<float> gate = both.block(0, 0, x.rows(), width);
  const MatrixView<float> out(output_.get(), x.rows(), arch_.hidden);
  apply(gate_up, x, both, pool_);
  activate_rows(arch_.activation, gate, both.block(0, width, x.rows(), width), pool_);
  callbacks.observe(role, expert, gate);
  apply(down, gate, out, pool_);
  return out;
}

}  // namespace cortiq::model
