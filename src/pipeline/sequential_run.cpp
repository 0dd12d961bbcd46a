// Sequential calibration as a stage of a GPTQ run.
#include "gptq_run.hpp"
#include "sequential.hpp"

namespace cortiq::pipeline {

void GptqRun::solve_sequentially(TensorJob& job) {
  if (plan_.memory.spill_hidden) open_spilling_forward();
  const SequentialParts parts{
      options_,
      job,
      *forward_,
      forward_source(),
      input_->corpus.windows,
      priors_,
      plan_.memory.spill_hidden ? std::optional(spill_folder()) : std::nullopt,
      [&](const GroupPlan& group, const calib::Hessian& hessian, const GroupTargets& targets) {
        solve_ready(job, group, hessian, {targets.prior_rows, &targets.weights});
      },
      [&](const GroupPlan& group, std::int64_t rows) { miss_group(job, group, rows); },
      [&](const std::string& phase, double seconds) { time_phase(phase, seconds); },
      [&](std::string text) { add_warning(std::move(text)); }};
  SequentialRun(parts).run();
}

}  // namespace cortiq::pipeline
