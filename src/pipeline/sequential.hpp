// sequential.hpp: sequential calibration with a corrected target (docs/quality.md section 5).
//
// Two streams of hidden states pass the model layer by layer: the reference stream through the
// original weights, the quantized stream through the output as far as it is written. Inside a layer
// the inputs are taken in execution order (q, k, v or the linear attention's projections; output
// projection; gate and up; down): the inputs of both streams give H, shift and residual
// (calib/stream_moments.hpp), those the target W' (sequential_target.hpp), the target is quantized,
// and both streams go on from where they are. Every stage of every stream runs once. Experts: the
// router of the quantized stream decides which tokens an expert sees. Memory: one input's moments,
// one layer's weights twice; hidden states and kept stages may lie on disk.
#pragma once

#include <functional>
#include <map>
#include <memory>
#include <optional>
#include <string>
#include <tuple>
#include <vector>

#include "cortiq/calib/stream_moments.hpp"
#include "cortiq/model/expert_stream.hpp"
#include "cortiq/model/forward.hpp"
#include "cortiq/model/layer_stream.hpp"
#include "expert_prior.hpp"
#include "tensor_work.hpp"
#include "written_source.hpp"

namespace cortiq::pipeline {

/// Quantizes the tensors of a group towards `targets` (one per tensor) under the Hessian.
struct GroupTargets {
  std::vector<DecodedTensor> weights;
  std::int64_t prior_rows = 0;
};

/// The run around the pass. All references outlive it.
struct SequentialParts {
  const GptqOptions& options;
  TensorJob& job;
  const model::Forward& reference;
  const cmf::Source& reference_source;
  const model::Windows& windows;
  const ExpertPriors& priors;
  std::optional<std::filesystem::path> spill_folder;
  std::function<void(const GroupPlan&, const calib::Hessian&, const GroupTargets&)> solve;
  std::function<void(const GroupPlan&, std::int64_t rows)> miss;
  std::function<void(const std::string& phase, double seconds)> time_phase;
  std::function<void(std::string)> warn;
};

class SequentialRun {
 public:
  explicit SequentialRun(const SequentialParts& parts);
  ~SequentialRun();
  /// All groups of the plan, in execution order.
  void run();

 private:
  struct Layer;
  struct Experts;
  using Key = std::tuple<std::int64_t, model::Role, std::int64_t>;

  void run_layer(std::int64_t index);
  void run_head();
  /// q, k, v or gate, up: both streams read normed states and stay where they are.
  void input_stage(Layer& layer, model::Role role);
  /// o or down: the product joins the residual stream.
  void output_stage(Layer& layer, model::Role role);
  /// What lies on disk stops counting as memory.
  void release_states() const;
  /// Step one of four inside a layer, for the progress line.
  void progress(const Layer& layer, int stage, std::int64_t done_tokens);

  // sequential_experts.cpp
  void expert_stage(Layer& layer);
  void shared_input(Layer& layer, Experts& experts);
  void run_expert(const Layer& layer, Experts& experts, std::int64_t expert);
  void expert_input(Experts& experts, std::int64_t expert);
  void expert_output(const Layer& layer, Experts& experts, std::int64_t expert);
  void shared_output(Layer& layer, Experts& experts);
  /// Adds the prior where the expert has few rows, then solves; or misses the group.
  void solve_expert(const GroupPlan& group, Experts& experts, calib::StreamMoments moments);

  void solve(const GroupPlan& group, calib::StreamMoments moments, std::int64_t prior_rows);
  [[nodiscard]] std::vector<DecodedTensor> targets(const GroupPlan& group,
                                                   const calib::StreamMoments& moments);
  /// The group that is to be solved here; null where there is none or the layer is replayed.
  [[nodiscard]] const GroupPlan* find(std::int64_t layer, model::Role role,
                                      std::int64_t expert = -1) const;
  [[nodiscard]] const GroupPlan* planned(std::int64_t layer, model::Role role,
                                         std::int64_t expert) const;
  /// Whether all that the plan wants of this layer is written.
  [[nodiscard]] bool is_done(std::int64_t layer) const;
  [[nodiscard]] Pool& pool() const { return parts_.job.context.pool; }
  /// [tokens, width] of the quantized stream's kept stage.
  [[nodiscard]] MatrixView<float> kept(std::int64_t rows, std::int64_t width) const {
    return {kept_.view().data(), rows, width};
  }

  SequentialParts parts_;
  WrittenSource written_;
  model::Forward quantized_;
  model::HiddenStates reference_states_;
  model::HiddenStates quantized_states_;
  model::HiddenStates kept_;
  std::map<Key, const GroupPlan*> groups_;
  double solve_seconds_ = 0;  // inside the current layer
  bool replay_ = false;       // an interrupted run has finished it: both streams only pass through
};

/// Columns of the widest stage that the pass keeps for all tokens; 0 only for a model without
/// layers.
[[nodiscard]] std::int64_t kept_width(const model::Arch& arch);

}  // namespace cortiq::pipeline
