#include "sequential.hpp"

#include <algorithm>
#include <chrono>

#include "post_norm.hpp"
#include "sequential_layer.hpp"
#include "sequential_target.hpp"

namespace cortiq::pipeline {
namespace {

using Clock = std::chrono::steady_clock;
using model::Role;

constexpr int kStagesPerLayer = 4;

double seconds_since(Clock::time_point start) {
  return std::chrono::duration<double>(Clock::now() - start).count();
}

ConstMatrixView<float> stage_rows(model::LayerStream& stream, Role role, std::int64_t batch) {
  switch (role) {
    case Role::kIn:
      return stream.attention_input(batch);
    case Role::kMixOut:
      return stream.mix(batch);
    case Role::kMlp:
      return stream.mlp_input(batch);
    default:
      return stream.activate(batch);
  }
}

model::LinearStack& stage_stack(model::LayerStream& stream, Role role) {
  model::LayerWeights& weights = stream.weights();
  switch (role) {
    case Role::kIn:
      return weights.in;
    case Role::kMixOut:
      return weights.mix_out;
    case Role::kMlp:
      return weights.mlp;
    default:
      return weights.down;
  }
}

void join(model::LayerStream& stream, Role role, std::int64_t batch, ConstMatrixView<float> x) {
  if (role == Role::kMixOut) {
    stream.add_mixer(batch, x);
  } else {
    stream.add_mlp(batch, x);
  }
}

void copy_rows(ConstMatrixView<float> from, MatrixView<float> to) {
  for (std::int64_t r = 0; r < from.rows(); ++r) std::copy_n(from.row(r), from.cols(), to.row(r));
}

}  // namespace

std::int64_t kept_width(const model::Arch& arch) {
  std::int64_t width = std::max(arch.intermediate, arch.experts ? arch.experts->width : 0);
  for (std::int64_t layer = 0; layer < arch.layers; ++layer)
    width = std::max(width, model::mixer_width(arch, layer));
  return width;
}

SequentialRun::SequentialRun(const SequentialParts& parts)
    : parts_(parts),
      written_(parts.job.source, parts.job.writer),
      quantized_(written_, parts.job.context.pool, {.spill_folder = parts.spill_folder}),
      reference_states_(parts.reference.embed(parts.windows)),
      quantized_states_(quantized_.embed(parts.windows)),
      kept_(parts.windows.tokens(), kept_width(quantized_.arch()), parts.spill_folder) {
  for (const GroupPlan& group : parts.job.plan.groups)
    groups_[{group.layer, group.role, group.expert}] = &group;
}
SequentialRun::~SequentialRun() = default;

const GroupPlan* SequentialRun::find(std::int64_t layer, Role role, std::int64_t expert) const {
  return replay_ ? nullptr : planned(layer, role, expert);
}

const GroupPlan* SequentialRun::planned(std::int64_t layer, Role role, std::int64_t expert) const {
  const auto found = groups_.find({layer, role, expert});
  return found == groups_.end() ? nullptr : found->second;
}

bool SequentialRun::is_done(std::int64_t layer) const {
  return std::all_of(groups_.begin(), groups_.end(), [&](const auto& entry) {
    const GroupPlan& group = *entry.second;
    return group.layer != layer ||
           std::all_of(group.tensors.begin(), group.tensors.end(), [&](std::size_t tensor) {
             return parts_.job.writer.is_written(tensor);
           });
  });
}

void SequentialRun::run() {
  std::int64_t last = -1;
  for (const GroupPlan& group : parts_.job.plan.groups) {
    if (!is_done(group.layer)) last = std::max(last, group.layer);
  }
  const std::int64_t layers = quantized_.arch().layers;
  for (std::int64_t layer = 0; layer <= std::min(last, layers - 1); ++layer) {
    const auto start = Clock::now();
    solve_seconds_ = 0;
    replay_ = is_done(layer);
    run_layer(layer);
    parts_.time_phase("forward and Hessians", seconds_since(start) - solve_seconds_);
  }
  replay_ = is_done(layers);
  if (find(layers, Role::kHead) != nullptr) run_head();
}

void SequentialRun::run_layer(std::int64_t index) {
  // Damaged weights are named before they poison the hidden states.
  for (const auto& [key, group] : groups_) {
    if (replay_ || group->layer != index) continue;
    for (const std::size_t tensor : group->tensors) {
      static_cast<void>(candidate_weights(parts_.job, tensor));
      parts_.job.source.release(tensor);
    }
  }
  Layer layer{index,
              {{parts_.reference.arch(), parts_.reference_source, parts_.windows,
                reference_states_.view()},
               index,
               pool()},
              {{quantized_.arch(), written_, parts_.windows, quantized_states_.view()},
               index,
               pool()}};
  input_stage(layer, Role::kIn);
  output_stage(layer, Role::kMixOut);
  if (model::has_experts(quantized_.arch(), index)) {
    expert_stage(layer);
  } else {
    input_stage(layer, Role::kMlp);
    output_stage(layer, Role::kDown);
  }
}

void SequentialRun::input_stage(Layer& layer, Role role) {
  const GroupPlan* group = find(layer.index, role);
  if (group == nullptr) return;
  calib::StreamCapture capture(input_of(*group), 0, pool());
  for (std::int64_t b = 0; b < layer.quantized.batches(); ++b) {
    capture.add(stage_rows(layer.reference, role, b), stage_rows(layer.quantized, role, b));
    progress(layer, role == Role::kIn ? 0 : 2, layer.quantized.first_token(b));
  }
  solve(*group, capture.take(), 0);
  model::reload_stack(written_, stage_stack(layer.quantized, role), pool());
}

void SequentialRun::output_stage(Layer& layer, Role role) {
  const GroupPlan* group = find(layer.index, role);
  std::optional<calib::StreamCapture> capture;
  std::optional<PostNormScale> scale;
  const model::Arch& arch = quantized_.arch();
  const bool corrects = parts_.options.sequential.alpha != 0.0;
  if (group != nullptr) capture.emplace(input_of(*group), corrects ? arch.hidden : 0, pool());
  if (group != nullptr && arch.sandwich_norms && corrects) {
    const model::LayerWeights& weights = layer.reference.weights();
    scale.emplace(stage_stack(layer.reference, role),
                  role == Role::kMixOut ? weights.post_attention_norm : weights.post_mlp_norm,
                  arch.norm_eps, pool());
  }
  for (std::int64_t b = 0; b < layer.quantized.batches(); ++b) {
    const ConstMatrixView<float> x = stage_rows(layer.reference, role, b);
    const ConstMatrixView<float> q = stage_rows(layer.quantized, role, b);
    if (capture) {
      StageRows rows{x, q, layer.reference.rows(b), layer.quantized.rows(b)};
      if (scale) rows = scale->apply(rows);
      capture->add(rows.x, rows.q);
      capture->add_residual(rows.r, rows.s, rows.q);
      copy_rows(q, kept(parts_.windows.tokens(), q.cols())
                       .block(layer.quantized.first_token(b), 0, q.rows(), q.cols()));
    } else {
      join(layer.quantized, role, b, q);
    }
    join(layer.reference, role, b, x);
    progress(layer, role == Role::kMixOut ? 1 : 3, layer.quantized.first_token(b));
  }
  if (!capture) return;
  scale.reset();
  solve(*group, capture->take(), 0);
  model::reload_stack(written_, stage_stack(layer.quantized, role), pool());
  const MatrixView<float> all = kept(parts_.windows.tokens(), group->width);
  for (std::int64_t b = 0; b < layer.quantized.batches(); ++b) {
    const std::int64_t rows = layer.quantized.rows(b).rows();
    join(layer.quantized, role, b,
         all.block(layer.quantized.first_token(b), 0, rows, group->width));
    release_states();
  }
}

void SequentialRun::run_head() {
  const GroupPlan& group = *find(quantized_.arch().layers, Role::kHead);
  calib::StreamCapture capture(input_of(group), 0, pool());
  constexpr std::int64_t kRows = 2048;
  std::vector<float> x(static_cast<std::size_t>(kRows * group.width));
  std::vector<float> q(x.size());
  for (std::int64_t first = 0; first < parts_.windows.tokens(); first += kRows) {
    const std::int64_t rows = std::min(kRows, parts_.windows.tokens() - first);
    const MatrixView<float> left(x.data(), rows, group.width);
    const MatrixView<float> right(q.data(), rows, group.width);
    parts_.reference.head().norm(reference_states_.view().block(first, 0, rows, group.width), left);
    quantized_.head().norm(quantized_states_.view().block(first, 0, rows, group.width), right);
    capture.add(left, right);
    release_states();
  }
  solve(group, capture.take(), 0);
}

void SequentialRun::solve(const GroupPlan& group, calib::StreamMoments moments,
                          std::int64_t prior_rows) {
  const auto start = Clock::now();
  if (moments.hessian->count == 0 && prior_rows == 0) {
    parts_.miss(group, 0);
  } else {
    const std::string& lead = parts_.job.source.tensors()[group.tensors.front()].name;
    static_cast<void>(with_context("tensor " + lead + ": Hessian", [&] {
      return calib::check_hessian(*moments.hessian, pool());
    }));
    const GroupTargets wanted{targets(group, moments), prior_rows};
    moments.shift.reset();
    moments.residual.reset();
    parts_.time_phase("targets", seconds_since(start));
    const auto sweep = Clock::now();
    parts_.solve(group, *moments.hessian, wanted);
    parts_.time_phase("fold and sweep", seconds_since(sweep));
  }
  written_.refresh();
  solve_seconds_ += seconds_since(start);
}

std::vector<DecodedTensor> SequentialRun::targets(const GroupPlan& group,
                                                  const calib::StreamMoments& moments) {
  std::vector<DecodedTensor> weights;
  for (const std::size_t index : group.tensors)
    weights.push_back(candidate_weights(parts_.job, index));
  const double alpha = parts_.options.sequential.alpha;
  const bool equal =
      moments.shift->is_zero() && (moments.residual == nullptr || moments.residual->is_zero());
  if (equal || alpha == 0.0) return weights;
  const TargetSolver solver(*moments.hessian, parts_.options.sequential.rho, pool());
  for (std::size_t i = 0; i < weights.size(); ++i) {
    const std::string& name = parts_.job.source.tensors()[group.tensors[i]].name;
    if (!solver.usable()) {
      parts_.warn(fmt::format(
          "tensor {}: its Hessian did not factor with --seq-rho {:g}, so it is quantized towards "
          "its original weights; raise --seq-rho",
          name, parts_.options.sequential.rho));
      continue;
    }
    weights[i] = with_context("tensor " + name, [&] {
      return solver.correct(weights[i], *moments.shift, moments.residual.get(), alpha);
    });
  }
  return weights;
}

void SequentialRun::release_states() const {
  for (const model::HiddenStates* states : {&reference_states_, &quantized_states_, &kept_})
    states->release(0, states->view().rows());
}

void SequentialRun::progress(const Layer& layer, int stage, std::int64_t done_tokens) {
  parts_.job.context.interrupt.check();
  const std::int64_t tokens = parts_.windows.tokens();
  release_states();
  const std::int64_t inside = (stage * tokens + done_tokens) / kStagesPerLayer;
  parts_.job.context.log.progress("calibrating", layer.index * tokens + inside,
                                  quantized_.arch().layers * tokens, "token layers");
}

}  // namespace cortiq::pipeline
