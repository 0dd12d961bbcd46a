// The MLP of a layer with routed experts under sequential calibration, one expert at a time. Their
// inputs do not depend on each other, so this equals taking all of them together. Experts that few
// rows reach come last: their prior is the sum over the others (expert_prior.hpp).
#include <algorithm>

#include "sequential_layer.hpp"

namespace cortiq::pipeline {

using model::Role;

namespace {

constexpr std::int64_t kPanelRows = model::ExpertStream::kPanelRows;

/// Sums over the experts of a layer that have enough rows.
struct PooledMoments {
  std::unique_ptr<calib::Hessian> hessian;
  std::unique_ptr<calib::CrossMoment> shift;

  void add(const calib::StreamMoments& moments, Pool& pool) {
    const std::int64_t n = moments.hessian->n();
    if (hessian == nullptr) {
      hessian = std::make_unique<calib::Hessian>(n);
      shift = std::make_unique<calib::CrossMoment>(n, n);
    }
    if (hessian->n() != n) return;
    add_scaled(*moments.hessian, 1.0, *hessian, pool);
    hessian->count += moments.hessian->count;
    shift->add_scaled(*moments.shift, 1.0, pool);
  }
  [[nodiscard]] bool serves(std::int64_t n) const {
    return hessian != nullptr && hessian->n() == n && hessian->count > 0;
  }
};

}  // namespace

struct SequentialRun::Experts {
  model::ExpertStream reference;
  model::ExpertStream quantized;
  std::int64_t layer;
  std::int64_t hidden;
  std::function<void()> release;  ///< what lies on disk stops counting as memory
  bool pooled = false;            ///< some expert will ask for a prior
  PooledMoments in;
  PooledMoments down;
  model::ExpertWeights original;
  model::ExpertWeights written;
  std::vector<float> left = std::vector<float>(static_cast<std::size_t>(kPanelRows * hidden));
  std::vector<float> right = std::vector<float>(left.size());

  /// The normed rows of both streams, valid until the next call.
  struct Rows {
    MatrixView<float> x;
    MatrixView<float> q;
  };
  [[nodiscard]] Rows panel(std::int64_t rows) {
    return {{left.data(), rows, hidden}, {right.data(), rows, hidden}};
  }
  [[nodiscard]] Rows input(std::span<const std::int32_t> index) {
    const Rows rows = panel(static_cast<std::int64_t>(index.size()));
    reference.input(index, rows.x);
    quantized.input(index, rows.q);
    return rows;
  }
  [[nodiscard]] Rows input(std::int64_t first, std::int64_t count) {
    const Rows rows = panel(count);
    reference.input(first, rows.x);
    quantized.input(first, rows.q);
    return rows;
  }
};

namespace {

/// Calls fn(first, part) for panels of the rows, behind each of them `after`.
template <typename After, typename Fn>
void for_panels(std::span<const std::int32_t> rows, const After& after, Fn&& fn) {
  const auto step = static_cast<std::size_t>(kPanelRows);
  for (std::size_t first = 0; first < rows.size(); first += step) {
    fn(first, rows.subspan(first, std::min(step, rows.size() - first)));
    after();
  }
}

template <typename After, typename Fn>
void for_panels(std::int64_t rows, const After& after, Fn&& fn) {
  for (std::int64_t first = 0; first < rows; first += kPanelRows) {
    fn(first, std::min(kPanelRows, rows - first));
    after();
  }
}

void copy_rows(ConstMatrixView<float> from, MatrixView<float> to) {
  for (std::int64_t r = 0; r < from.rows(); ++r) std::copy_n(from.row(r), from.cols(), to.row(r));
}

}  // namespace

void SequentialRun::expert_stage(Layer& layer) {
  const model::Arch& arch = quantized_.arch();
  Experts experts{{{parts_.reference.arch(), layer.reference.weights(), reference_states_.view(),
                    parts_.spill_folder, [&] { release_states(); }},
                   layer.index,
                   pool()},
                  {{arch, layer.quantized.weights(), quantized_states_.view(),
                    parts_.spill_folder, [&] { release_states(); }},
                   layer.index,
                   pool()},
                  layer.index,
                  arch.hidden,
                  {},
                  false,
                  {},
                  {},
                  {},
                  {}};
  experts.release = [&] {
    release_states();
    experts.reference.release();
    experts.quantized.release();
  };
  shared_input(layer, experts);
  experts.reference.route();
  experts.quantized.route();
  const std::int64_t count = arch.layer_experts[static_cast<std::size_t>(layer.index)];
  const auto starved = [&](std::int64_t e) {
    // The order of the experts is that of their sums, so a replayed layer keeps it.
    const GroupPlan* group = planned(layer.index, Role::kExpertIn, e);
    if (group == nullptr) group = planned(layer.index, Role::kExpertDown, e);
    const auto rows = static_cast<std::int64_t>(experts.quantized.rows(e).size());
    return group != nullptr && parts_.priors.starved(*group, rows);
  };
  for (std::int64_t e = 0; e < count; ++e) experts.pooled |= starved(e);
  experts.pooled = experts.pooled && parts_.priors.rows() > 0;
  std::int64_t done = 0;
  for (const bool late : {false, true}) {
    for (std::int64_t e = 0; e < count; ++e) {
      if (starved(e) != late) continue;
      run_expert(layer, experts, e);
      progress(layer, 2, 2 * ++done * parts_.windows.tokens() / count);
    }
  }
  if (layer.quantized.weights().mlp.rows > 0) shared_output(layer, experts);
  const auto check = [&](model::ExpertStream& stream, const cmf::Source& source) {
    if (const auto bad = stream.finish())
      model::fail_state_not_finite(source, parts_.windows, layer.index, *bad);
  };
  check(experts.reference, parts_.reference_source);
  check(experts.quantized, written_);
}

void SequentialRun::shared_input(Layer& layer, Experts& experts) {
  const GroupPlan* group = find(layer.index, Role::kMlp);
  if (group == nullptr) return;
  calib::StreamCapture capture(input_of(*group), 0, pool());
  for_panels(parts_.windows.tokens(), experts.release, [&](std::int64_t first, std::int64_t count) {
    const auto rows = experts.input(first, count);
    capture.add(rows.x, rows.q);
  });
  solve(*group, capture.take(), 0);
  model::reload_stack(written_, layer.quantized.weights().mlp, pool());
  model::reload_stack(written_, layer.quantized.weights().router, pool());
}

void SequentialRun::run_expert(const Layer& layer, Experts& experts, std::int64_t expert) {
  model::load_expert(parts_.reference_source, layer.index, expert, experts.original, pool());
  for_panels(experts.reference.rows(expert), experts.release, [&](std::size_t first, const auto& rows) {
    const auto x = experts.panel(static_cast<std::int64_t>(rows.size())).x;
    experts.reference.input(rows, x);
    experts.reference.add(expert, first, experts.original.down,
                          experts.reference.activate(experts.original.mlp, x));
  });
  expert_input(experts, expert);
  model::load_expert(written_, layer.index, expert, experts.written, pool());
  expert_output(layer, experts, expert);
}

void SequentialRun::expert_input(Experts& experts, std::int64_t expert) {
  const GroupPlan* group = find(experts.layer, Role::kExpertIn, expert);
  if (group == nullptr) return;
  calib::StreamCapture capture(input_of(*group), 0, pool());
  for_panels(experts.quantized.rows(expert), experts.release, [&](std::size_t, const auto& index) {
    const auto rows = experts.input(index);
    capture.add(rows.x, rows.q);
  });
  solve_expert(*group, experts, capture.take());
}

void SequentialRun::expert_output(const Layer& layer, Experts& experts, std::int64_t expert) {
  const GroupPlan* group = find(layer.index, Role::kExpertDown, expert);
  const auto all = experts.quantized.rows(expert);
  const std::int64_t width = experts.written.down.cols;
  const MatrixView<float> activated = kept(static_cast<std::int64_t>(all.size()), width);
  const auto part = [&](std::size_t first, std::size_t count) {
    return activated.block(static_cast<std::int64_t>(first), 0, static_cast<std::int64_t>(count),
                           width);
  };
  std::optional<calib::StreamCapture> capture;
  if (group != nullptr) capture.emplace(input_of(*group), 0, pool());
  for_panels(all, experts.release, [&](std::size_t first, const auto& index) {
    const auto rows = experts.input(index);
    const auto q = experts.quantized.activate(experts.written.mlp, rows.q);
    if (capture) capture->add(experts.reference.activate(experts.original.mlp, rows.x), q);
    copy_rows(q, part(first, index.size()));
  });
  if (capture) {
    solve_expert(*group, experts, capture->take());
    model::reload_stack(written_, experts.written.down, pool());
  }
  for_panels(all, experts.release, [&](std::size_t first, const auto& index) {
    experts.quantized.add(expert, first, experts.written.down, part(first, index.size()));
  });
}

void SequentialRun::shared_output(Layer& layer, Experts& experts) {
  const GroupPlan* group = find(layer.index, Role::kSharedDown);
  model::LayerWeights& original = layer.reference.weights();
  model::LayerWeights& written = layer.quantized.weights();
  const std::int64_t width = written.down.cols;
  const MatrixView<float> activated = kept(parts_.windows.tokens(), width);
  std::optional<calib::StreamCapture> capture;
  if (group != nullptr) capture.emplace(input_of(*group), 0, pool());
  for_panels(parts_.windows.tokens(), experts.release, [&](std::int64_t first, std::int64_t count) {
    const auto rows = experts.input(first, count);
    const auto x = experts.reference.activate(original.mlp, rows.x);
    const auto q = experts.quantized.activate(written.mlp, rows.q);
    if (capture) capture->add(x, q);
    experts.reference.add_shared(first, original.down, x);
    copy_rows(q, activated.block(first, 0, count, width));
  });
  if (capture) {
    solve(*group, capture->take(), 0);
    model::reload_stack(written_, written.down, pool());
  }
  for_panels(parts_.windows.tokens(), experts.release, [&](std::int64_t first, std::int64_t count) {
    experts.quantized.add_shared(first, written.down, activated.block(first, 0, count, width));
  });
}

void SequentialRun::solve_expert(const GroupPlan& group, Experts& experts,
                                 calib::StreamMoments moments) {
  PooledMoments& sum = group.place->down ? experts.down : experts.in;
  calib::Hessian& hessian = *moments.hessian;
  if (!parts_.priors.starved(group, hessian.count)) {
    if (experts.pooled) sum.add(moments, pool());
    solve(group, std::move(moments), 0);
    return;
  }
  const std::int64_t rows = parts_.priors.rows();
  if (rows == 0 || !sum.serves(hessian.n())) {
    parts_.miss(group, hessian.count);
    written_.refresh();
    return;
  }
  const double scale = static_cast<double>(rows) / static_cast<double>(sum.hessian->count);
  add_scaled(*sum.hessian, scale, hessian, pool());
  moments.shift->add_scaled(*sum.shift, scale, pool());
  solve(group, std::move(moments), rows);
}

}  // namespace cortiq::pipeline
