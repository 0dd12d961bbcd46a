#include "sequential_memory.hpp"

#include <algorithm>
#include <map>

#include "cortiq/linalg/gemm.hpp"
#include "memory_plan.hpp"
#include "sequential.hpp"
#include "sequential_target.hpp"

namespace cortiq::pipeline {
namespace {

template <typename T>
std::uint64_t matrix_bytes(std::int64_t rows, std::int64_t cols) {
  return static_cast<std::uint64_t>(rows) * static_cast<std::uint64_t>(cols) * sizeof(T);
}

/// What the stages of one input hold.
struct InputNeeds {
  std::uint64_t moments = 0;  ///< while they are summed and turned into targets
  std::uint64_t solve = 0;    ///< fold and sweep
};

/// Rows that pass a layer at a time.
std::int64_t batch_rows(std::int64_t tokens) {
  return std::min(tokens, model::ForwardOptions{}.batch_tokens);
}

InputNeeds input_needs(const Plan& plan, const cmf::Source& source, const GroupPlan& group,
                       const model::Arch& arch, std::int64_t tokens) {
  const std::int64_t n = group.width;
  const bool joins = group.role == model::Role::kMixOut || group.role == model::Role::kDown;
  const std::int64_t residual = joins ? arch.hidden : 0;
  std::int64_t tallest = 0;
  std::uint64_t largest = 0;
  std::uint64_t targets = 0;
  std::vector<std::uint64_t> sizes;
  for (const std::size_t index : group.tensors) {
    const cmf::TensorInfo& info = source.tensors()[index];
    sizes.push_back(matrix_bytes<float>(info.shape[0], info.shape[1]));
    tallest = std::max(tallest, info.shape[0]);
    largest = std::max(largest, sizes.back());
    targets += sizes.back();
  }
  const std::uint64_t hessian = group_hessian_bytes(group);
  const std::uint64_t crossed = matrix_bytes<double>(n + residual, n);
  // Differences of the streams; where a norm follows, also their rescaled rows.
  const std::int64_t panels = n + residual + (joins && arch.sandwich_norms ? 2 * n + 3 * residual : 0);
  const std::uint64_t capture = hessian + crossed + calib::capture_carry_bytes(n) +
                                matrix_bytes<float>(batch_rows(tokens), panels);
  const std::uint64_t target =
      hessian + crossed + targets + largest + TargetSolver::bytes(tallest, n);
  // solve_bytes has the weights of those members that are swept at the same time.
  std::sort(sizes.rbegin(), sizes.rend());
  sizes.resize(std::min(sizes.size(), static_cast<std::size_t>(plan.threads)));
  for (const std::uint64_t size : sizes) targets -= size;
  return {std::max(capture, target),
          hessian + targets + solve_bytes(plan, group, source, plan.threads)};
}

/// Both streams of a layer: weights and scratch, and with experts one of them.
std::uint64_t layer_bytes(const cmf::Source& source, const model::Arch& arch, std::int64_t layer,
                          std::int64_t tokens) {
  std::uint64_t bytes = 2 * model::LayerStream::bytes(arch, source, layer, batch_rows(tokens));
  if (!model::has_experts(arch, layer)) return bytes;
  bytes += 2 * model::ExpertStream::scratch_bytes(arch, tokens);
  // The normed rows and the weights of one expert.
  bytes += 2 * matrix_bytes<float>(model::ExpertStream::kPanelRows, arch.hidden);
  return bytes + 2 * 3 * matrix_bytes<float>(arch.hidden, arch.experts->width);
}

/// Hessian and shift of a group.
std::uint64_t moment_bytes(const GroupPlan& group) {
  return group_hessian_bytes(group) + matrix_bytes<double>(group.width, group.width);
}

/// Pages of a matrix on disk that a panel of an expert's rows brings into memory.
std::uint64_t scattered_bytes(std::int64_t tokens, std::int64_t hidden) {
  constexpr std::uint64_t kPageBytes = 4096;
  const auto rows = static_cast<std::uint64_t>(std::min(tokens, model::ExpertStream::kPanelRows));
  return std::min(matrix_bytes<float>(tokens, hidden),
                  rows * kPageBytes + matrix_bytes<float>(static_cast<std::int64_t>(rows), hidden));
}

}  // namespace

std::uint64_t set_sequential_needs(Plan& plan, const cmf::Source& source,
                                   const model::Forward& forward, std::int64_t tokens) {
  const model::Arch& arch = forward.arch();
  MemoryPlan& memory = plan.memory;
  // Two streams, what a stage keeps of the quantized one, and with experts the sums of both.
  const std::int64_t width = (arch.experts ? 4 : 2) * arch.hidden + kept_width(arch);
  memory.hidden_states = matrix_bytes<float>(tokens, width);
  memory.hidden_part = matrix_bytes<float>(batch_rows(tokens), width);
  // The rows of an expert lie scattered, most of them on a page of their own.
  if (arch.experts)
    memory.hidden_part = std::max(memory.hidden_part, 4 * scattered_bytes(tokens, arch.hidden));
  memory.layer_weights = 0;
  memory.hessians = 0;
  memory.solve = 0;
  const std::uint64_t products = forward_scratch_bytes(plan);
  std::uint64_t most = 0;
  std::map<std::int64_t, std::vector<const GroupPlan*>> layers;
  for (const GroupPlan& group : plan.groups) layers[group.layer].push_back(&group);
  for (const auto& [index, groups] : layers) {
    const std::uint64_t layer =
        (index < arch.layers ? layer_bytes(source, arch, index, tokens) : 0) + products;
    const std::uint64_t pooled = prior_bytes(groups, moment_bytes);
    memory.layer_weights = std::max(memory.layer_weights, layer);
    for (const GroupPlan* group : groups) {
      const InputNeeds needs = input_needs(plan, source, *group, arch, tokens);
      memory.hessians = std::max(memory.hessians, pooled + needs.moments);
      memory.solve = std::max(memory.solve, pooled + needs.solve);
      most = std::max(most, layer + pooled + std::max(needs.moments, needs.solve));
    }
  }
  return most;
}

}  // namespace cortiq::pipeline
