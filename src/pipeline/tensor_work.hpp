// tensor_work.hpp: what happens to one tensor: copied, rounded, or swept with a folded Hessian.
#pragma once

#include <memory>
#include <vector>

#include "cortiq/calib/hessian.hpp"
#include "cortiq/cmf/writer.hpp"
#include "cortiq/codec/codec.hpp"
#include "cortiq/gptq/backend.hpp"
#include "cortiq/pipeline/context.hpp"
#include "cortiq/pipeline/model_source.hpp"
#include "cortiq/pipeline/plan.hpp"
#include "cortiq/pipeline/report.hpp"
#include "run_journal.hpp"

namespace cortiq::pipeline {

struct TensorJob {
  const cmf::Source& source;
  cmf::Writer& writer;
  const Plan& plan;
  std::vector<TensorReport>& reports;  ///< one per tensor, same order
  codec::EncodeOptions encode;
  NonFinite non_finite = NonFinite::kRefuse;
  Context& context;
  RunJournal* journal = nullptr;  ///< of a run that can be resumed
};

/// Fills name, shape, sizes, codec and action of every report.
[[nodiscard]] std::vector<TensorReport> initial_reports(const cmf::Source& source,
                                                        const Plan& plan);

/// Copies or rounds tensor `index` to the writer. Float tensors are checked for NaN and infinity in
/// both cases.
void copy_tensor(TensorJob& job, std::size_t index);
void round_tensor(TensorJob& job, std::size_t index);
/// Rounds or copies every tensor that is not GPTQ-quantized and not written yet, with progress.
void write_plain_tensors(TensorJob& job);

/// Decoded and checked weights of a candidate.
[[nodiscard]] DecodedTensor candidate_weights(TensorJob& job, std::size_t index);

/// A matrix and what a codec made of it.
struct Encoded {
  const DecodedTensor& weights;
  codec::Codec codec;
  ByteSpan payload;
};
/// tr(E H E^T) of weights minus decoded payload.
[[nodiscard]] double payload_error(const Encoded& encoded, gptq::Backend& backend,
                                   ConstMatrixView<double> h, const gptq::Factor& factor,
                                   Pool& pool);

struct GroupSettings {
  double lambda = 0.01;
  gptq::Order order = gptq::Order::kGroup;
  gptq::Rung rung = gptq::Rung::kSim;
  gptq::LadderFit ladder = gptq::LadderFit::kFit;
  int polish = 0;
  bool group_moves = false;
  bool row_scale = false;
  bool q2tp_debias = true;
  bool q4tp_debias = false;
  /// What the tensors are quantized towards, one per tensor of the group; null: their own weights.
  const std::vector<DecodedTensor>* targets = nullptr;
};

/// The settings of the run's options.
[[nodiscard]] GroupSettings group_settings(const GptqOptions& options,
                                           const std::vector<DecodedTensor>* targets = nullptr);
/// How a tensor with this choice is swept.
[[nodiscard]] gptq::SweepOptions sweep_options(const TensorChoice& choice, const GroupSettings& settings);
/// Folds the Hessian of a group and sweeps its tensors.
void solve_group(TensorJob& job, gptq::Backend& backend, const GroupSettings& settings,
                 const GroupPlan& group, const calib::Hessian& hessian);

/// Opens the finished file and checks all its hashes; Error{kIo} with the first problem.
void check_written(const std::filesystem::path& output, Pool& pool);

/// Rounds a candidate that has no usable Hessian and marks it missed.
void miss_tensor(TensorJob& job, std::size_t index, const std::string& why);

}  // namespace cortiq::pipeline
