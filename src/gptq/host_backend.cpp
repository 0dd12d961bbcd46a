#include <algorithm>

#include "chunk_sweep.hpp"
#include "cortiq/codec/ladder.hpp"
#include "cortiq/gptq/backend.hpp"
#include "cortiq/gptq/fold.hpp"
#include "sweep_plan.hpp"

namespace cortiq::gptq {

namespace {

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
    CORTIQ_ASSERT(options.order == factor.order);
    CORTIQ_ASSERT(w.cols() == host->n() && h_upper.rows() == host->n() &&
                  w.cols() % kGroupCols == 0);
    const SweepPlan plan(*host, h_upper, options, pool_);
    SweepResult result;
    result.payload.resize(static_cast<std::size_t>(
        codec::plane_layout(plan.four_bit ? 4 : 2, w.rows(), w.cols()).bytes));
    for (std::int64_t first = 0; first < w.rows(); first += kChunkRows) {
      const std::int64_t count = std::min(kChunkRows, w.rows() - first);
      ChunkSweep chunk(plan, w.block(first, 0, count, w.cols()), first, pool_);
      chunk.run();
      chunk.measure();
      result.dead_groups += chunk.pack(result.payload, w.rows());
      result.output_error += chunk.error();
      result.output_energy += chunk.energy();
    }
    return result;
  }

 private:
  Pool& pool_;
};

}  // namespace

std::unique_ptr<Backend> make_host_backend(Pool& pool) {
  return std::make_unique<HostBackend>(pool);
}

}  // namespace cortiq::gptq
