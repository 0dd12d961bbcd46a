#include <algorithm>
#include <chrono>

#include "chunk_sweep.hpp"
#include "cortiq/codec/ladder.hpp"
#include "cortiq/gptq/backend.hpp"
#include "cortiq/gptq/fold.hpp"
#include "cortiq/gptq/sweep.hpp"
#include "one_bit_sweep.hpp"
#include "sweep_plan.hpp"

namespace cortiq::gptq {

namespace {

using Clock = std::chrono::steady_clock;

template <typename Fn>
void timed(double& seconds, Fn&& fn) {
  const auto begin = Clock::now();
  fn();
  seconds += std::chrono::duration<double>(Clock::now() - begin).count();
}

class HostBackend final : public Backend {
 public:
  explicit HostBackend(Pool& pool) : pool_(pool) {}

  std::unique_ptr<Factor> fold(ConstMatrixView<double> h_upper,
                               const FoldOptions& options) override {
    return fold_host(h_upper, options, pool_);
  }

  SweepResult sweep(ConstMatrixView<float> w, ConstMatrixView<double> h_upper, const Factor& factor,
                    const SweepOptions& options) override {
    const auto* host = dynamic_cast<const HostFactor*>(&factor);
    CORTIQ_ASSERT(host != nullptr);
    return sweep_host(w, h_upper, *host, options, pool_);
  }

  std::vector<SweepResult> sweep_group(std::span<const SweepJob> jobs,
                                       ConstMatrixView<double> h_upper,
                                       const Factor& factor) override {
    std::vector<SweepResult> results(jobs.size());
    pool_.for_each(static_cast<std::int64_t>(jobs.size()), [&](std::int64_t i) {
      const SweepJob& job = jobs[static_cast<std::size_t>(i)];
      results[static_cast<std::size_t>(i)] =
          with_context(fmt::format("tensor {}", job.name),
                       [&] { return sweep(job.w, h_upper, factor, job.options); });
    });
    return results;
  }

  double error_of(ConstMatrixView<float> e, ConstMatrixView<double> h_upper,
                  const Factor&) override {
    const std::vector<float> zeros(static_cast<std::size_t>(e.cols()), 0.0F);
    return error_form(e, ConstMatrixView<float>(zeros.data(), e.rows(), e.cols(), 0), h_upper, pool_);
  }

 private:
  Pool& pool_;
};

}  // namespace

std::vector<SweepResult> Backend::sweep_group(std::span<const SweepJob> jobs,
                                              ConstMatrixView<double> h_upper,
                                              const Factor& factor) {
  std::vector<SweepResult> results;
  for (const SweepJob& job : jobs) {
    results.push_back(with_context(fmt::format("tensor {}", job.name),
                                   [&] { return sweep(job.w, h_upper, factor, job.options); }));
  }
  return results;
}

SweepResult sweep_host(ConstMatrixView<float> w, ConstMatrixView<double> h_upper,
                       const HostFactor& factor, const SweepOptions& options, Pool& pool,
                       SweepTimes* times) {
  CORTIQ_ASSERT(options.order == factor.order);
  CORTIQ_ASSERT(w.cols() == factor.n() && h_upper.rows() == factor.n() &&
                w.cols() % kGroupCols == 0);
  if (is_one_bit(options.target)) {
    SweepTimes spent;
    return sweep_one_bit(w, h_upper, factor, options, pool, times != nullptr ? *times : spent);
  }
  const SweepPlan plan(factor, h_upper, options, pool);
  const codec::PlaneLayout layout = codec::plane_layout(plan.four_bit ? 4 : 2, w.rows(), w.cols());
  SweepTimes spent;
  SweepResult result;
  result.payload.resize(static_cast<std::size_t>(layout.bytes));
  for (std::int64_t first = 0; first < w.rows(); first += kChunkRows) {
    const std::int64_t count = std::min(kChunkRows, w.rows() - first);
    ChunkSweep chunk(plan, w.block(first, 0, count, w.cols()), first, pool);
    timed(spent.ladder_seconds, [&] { chunk.choose_converter_ladders(); });
    timed(spent.sweep_seconds, [&] { chunk.run(); });
    timed(spent.polish_seconds, [&] { chunk.polish(options.polish); });
    timed(spent.measure_seconds, [&] { chunk.measure(); });
    result.dead_groups += chunk.pack(result.payload, w.rows());
    result.output_error += chunk.error();
    result.output_energy += chunk.energy();
  }
  if (times != nullptr) {
    times->ladder_seconds += spent.ladder_seconds;
    times->sweep_seconds += spent.sweep_seconds;
    times->polish_seconds += spent.polish_seconds;
    times->measure_seconds += spent.measure_seconds;
  }
  return result;
}

std::unique_ptr<Backend> make_host_backend(Pool& pool) {
  return std::make_unique<HostBackend>(pool);
}

}  // namespace cortiq::gptq
