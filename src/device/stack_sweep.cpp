// stack_sweep.cpp: cuts a stack of tensors into chunks of rows and sweeps one after the other.
#include <algorithm>

#include "stack.hpp"

namespace cortiq::device {

namespace {

constexpr std::int64_t kLeastChunk = 128;

std::uint64_t damped_bytes(const DeviceFactor& factor) {
  const auto size = static_cast<std::uint64_t>(factor.size);
  return 4 * size * (size + static_cast<std::uint64_t>(kBlockColumns)) + (1U << 20U);
}

std::int64_t rows_that_fit(const Engine& engine, const DeviceFactor& factor) {
  const std::uint64_t free_bytes = engine.context().bytes_available();
  const std::uint64_t fixed = damped_bytes(factor);
  const std::uint64_t left = free_bytes > fixed ? (free_bytes - fixed) / 10 * 9 : 0;
  const auto rows = static_cast<std::int64_t>(left / sweep_bytes_per_row(factor.n()));
  return std::max(kLeastChunk, rows / layout::kTile * layout::kTile);
}

/// Largest magnitude of all weights: the scale of the split must not depend on how rows are cut.
float largest_weight(StackSweep::Weights weights, Pool& pool) {
  float largest = 0;
  for (const auto& w : weights) largest = std::max(largest, largest_magnitude(w, pool));
  return largest;
}

/// Rows [first, first + count) of the stack as parts of tensors.
std::vector<StackPart> parts_of(StackSweep::Weights weights, std::int64_t first, std::int64_t count) {
  std::vector<StackPart> parts;
  std::int64_t start = 0;
  for (std::size_t t = 0; t < weights.size(); ++t) {
    const std::int64_t begin = std::max(first, start);
    const std::int64_t end = std::min(first + count, start + weights[t].rows());
    if (begin < end) parts.push_back({t, begin - start, end - begin, begin - first});
    start += weights[t].rows();
  }
  return parts;
}

}  // namespace

std::uint64_t sweep_bytes_per_row(std::int64_t n) {
  const auto width = static_cast<std::uint64_t>(padded(n));
  // weights, work and one operand of the whole width; codes, rungs, payload; errors of a block.
  return 12 * width + width / 2 + width / 8 + width / 2 + 4 * static_cast<std::uint64_t>(kBlockColumns) + 256;
}

std::vector<gptq::SweepResult> sweep_on_device(const Engine& engine, vulkan::Stream& stream, Pool& pool,
                                               const DeviceFactor& factor, StackSweep::Weights weights,
                                               const gptq::SweepOptions& options,
                                               std::int64_t chunk_rows) {
  std::vector<gptq::SweepResult> results(weights.size());
  std::int64_t total = 0;
  for (const auto& w : weights) {
    CORTIQ_ASSERT(w.cols() == factor.n());
    total += w.rows();
  }
  const float absmax = largest_weight(weights, pool);
  const std::int64_t chunk = chunk_rows > 0 ? chunk_rows : std::min(total, rows_that_fit(engine, factor));
  DampedHessian damped = make_damped_hessian(engine, stream, factor);
  stream.barrier();
  if (options.group_moves && options.polish > 0 && options.order != gptq::Order::kAct)
    add_group_blocks(engine, stream, pool, factor, damped);
  for (std::int64_t first = 0; first < total; first += chunk) {
    StackSweep stack(engine, stream, pool, factor, options);
    stack.load(weights, parts_of(weights, first, std::min(chunk, total - first)), absmax);
    stack.sweep();
    stack.polish(damped);
    stack.measure(damped, results);
    stack.pack(weights, results);
    stream.finish();
  }
  return results;
}

}  // namespace cortiq::device
