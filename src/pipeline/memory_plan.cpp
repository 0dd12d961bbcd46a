#include "memory_plan.hpp"

#include <algorithm>
#include <limits>
#include <map>
#include <numeric>

#include "cortiq/linalg/gemm.hpp"
#include "cortiq/support/memory.hpp"
#include "sequential_memory.hpp"

namespace cortiq::pipeline {
namespace {

constexpr std::uint64_t kUnlimited = std::numeric_limits<std::uint64_t>::max();
/// Rows and columns that the sweep and the measurement of its error work on at a time.
constexpr std::int64_t kChunkRows = 1024;
constexpr std::int64_t kBlockCols = 256;
/// Code, tables and allocator that a run touches only after it is planned (measured: 6 to 9 MB).
constexpr std::uint64_t kLaterBytes = 8U << 20U;

std::string gb(std::uint64_t bytes) {
  return fmt::format("{:.3f} GB", static_cast<double>(bytes) / 1e9);
}

std::uint64_t product(std::int64_t a, std::int64_t b, std::int64_t c = 1) {
  return static_cast<std::uint64_t>(a) * static_cast<std::uint64_t>(b) *
         static_cast<std::uint64_t>(c);
}

std::uint64_t square_bytes(std::int64_t n) { return product(n, n, sizeof(double)); }

/// One matrix while it is swept and measured: input pages, f32 weights and payload all the time,
/// and first the chunk of the sweep (corrected weights f64, codes; the polish holds their error too),
/// then the rounded matrix and a chunk of its error.
std::uint64_t sweep_bytes(const Plan& plan, const cmf::Source& source, std::size_t index) {
  const cmf::TensorInfo& info = source.tensors()[index];
  const std::int64_t rows = info.shape[0];
  const std::int64_t cols = info.shape[1];
  const std::int64_t chunk = std::min(rows, kChunkRows);
  const bool one_bit = gptq::is_one_bit(*gptq_target(plan.choices[index].codec));
  const std::uint64_t payload = plan.output[index].nbytes;
  const std::int64_t per_weight = one_bit ? 34 : plan.fits_row_scale ? 25 : plan.keeps_damped ? 17 : 9;
  const std::uint64_t sweep = product(chunk, cols, per_weight);
  const std::uint64_t measure = product(rows, cols, 4) + payload +
                                product(chunk, cols, sizeof(double)) +
                                product(chunk, kBlockCols, sizeof(double));
  return info.nbytes + product(rows, cols, 4) + payload + std::max(sweep, measure) +
         linalg::gemm_f64_scratch_bytes(chunk, cols);
}

/// Sum of the `count` largest.
std::uint64_t sum_of_largest(std::vector<std::uint64_t> values, std::size_t count) {
  std::sort(values.rbegin(), values.rend());
  const auto end = values.begin() + static_cast<std::ptrdiff_t>(std::min(count, values.size()));
  return std::accumulate(values.begin(), end, std::uint64_t{0});
}

/// The groups of one layer, or of one section of a cache.
struct Layer {
  std::vector<const GroupPlan*> groups;
  std::uint64_t weights = 0;       ///< f32 weights, panels and what products pack
  std::uint64_t hessians = 0;      ///< all of them
  std::uint64_t largest = 0;       ///< one Hessian
  std::uint64_t carry = 0;         ///< rows that the capture gathers
  std::uint64_t priors = 0;
  std::vector<std::uint64_t> needs;       ///< fold and sweep
  std::vector<std::uint64_t> with_hessian;  ///< the same, the Hessian read for it
};

std::vector<Layer> layers_of(const Plan& plan, const cmf::Source& source,
                             const model::Forward* forward, std::int64_t tokens) {
  std::map<std::int64_t, Layer> layers;
  for (const GroupPlan& group : plan.groups) layers[group.layer].groups.push_back(&group);
  const std::uint64_t products = forward_scratch_bytes(plan);
  std::vector<Layer> list;
  for (auto& [index, layer] : layers) {
    if (forward != nullptr) {
      const bool inside = index < forward->arch().layers;
      layer.weights = products +
                      (inside ? forward->layer_memory_bytes(index, tokens) : 0);
    }
    for (const GroupPlan* group : layer.groups) {
      const std::uint64_t hessian = group_hessian_bytes(*group);
      const std::uint64_t need = solve_bytes(plan, *group, source, plan.threads);
      layer.hessians += hessian;
      layer.largest = std::max(layer.largest, hessian);
      layer.carry += calib::capture_carry_bytes(group->width);
      layer.needs.push_back(need);
      layer.with_hessian.push_back(need + hessian);
    }
    layer.priors = prior_bytes(layer.groups, group_hessian_bytes);
    list.push_back(std::move(layer));
  }
  return list;
}

std::uint64_t most(const std::vector<std::uint64_t>& values) {
  return values.empty() ? 0 : *std::max_element(values.begin(), values.end());
}

/// Peak of a one-shot run of its own Hessians, with `groups` solved at the same time.
std::uint64_t capture_peak(const MemoryPlan& memory, const std::vector<Layer>& layers,
                           std::size_t groups) {
  const std::uint64_t constant = memory.base + memory.hidden_resident();
  std::uint64_t peak = constant;
  for (const Layer& layer : layers) {
    const bool spilled = memory.hessian_limit > 0;
    const std::uint64_t held =
        spilled ? std::min(layer.hessians, memory.hessian_limit) : layer.hessians;
    const std::uint64_t capture = layer.weights + layer.carry + held;
    const std::uint64_t solve =
        layer.priors + (spilled ? sum_of_largest(layer.with_hessian, groups)
                                : layer.hessians + sum_of_largest(layer.needs, groups));
    peak = std::max(peak, constant + std::max(capture, solve));
  }
  return peak;
}

/// Peak of a run whose Hessians come from a cache.
std::uint64_t cached_peak(const MemoryPlan& memory, const std::vector<Layer>& layers,
                          std::size_t groups) {
  std::uint64_t peak = memory.base;
  for (const Layer& layer : layers) {
    peak = std::max(peak, memory.base + layer.priors + sum_of_largest(layer.with_hessian, groups));
  }
  return peak;
}

/// Lets the capture hold what the weights of a layer leave of the budget.
void spill_hessians(MemoryPlan& memory, const std::vector<Layer>& layers) {
  std::uint64_t largest = 0;
  std::uint64_t carry = 0;
  for (const Layer& layer : layers) {
    largest = std::max(largest, layer.largest);
    carry = std::max(carry, layer.carry);
  }
  const std::uint64_t fixed =
      memory.base + memory.hidden_resident() + memory.layer_weights + carry;
  memory.hessian_limit = std::max(largest, memory.budget - std::min(memory.budget, fixed));
}

void plan_one_shot(Plan& plan, const std::vector<Layer>& layers, int threads) {
  MemoryPlan& memory = plan.memory;
  const bool cached = !plan.groups.empty() &&
                      std::all_of(plan.groups.begin(), plan.groups.end(),
                                  [](const GroupPlan& group) { return group.cache_entry; });
  const auto peak = [&](std::size_t groups) {
    return cached ? cached_peak(memory, layers, groups) : capture_peak(memory, layers, groups);
  };
  memory.peak = peak(1);
  if (!cached && memory.peak > memory.budget) {
    memory.spill_hidden = true;
    memory.peak = peak(1);
  }
  if (!cached && memory.peak > memory.budget) {
    spill_hessians(memory, layers);
    memory.peak = peak(1);
  }
  for (int groups = 2; groups <= threads && peak(static_cast<std::size_t>(groups)) <= memory.budget;
       ++groups) {
    memory.groups_at_once = groups;
    memory.peak = peak(static_cast<std::size_t>(groups));
  }
}

}  // namespace

std::uint64_t forward_scratch_bytes(const Plan& plan) {
  std::int64_t widest = 0;
  for (const GroupPlan& group : plan.groups) widest = std::max(widest, group.width);
  const std::int64_t batch = model::ForwardOptions{}.batch_tokens;
  return linalg::gemm_f32_scratch_bytes(std::max(batch, widest), widest);
}

std::uint64_t prior_bytes(const std::vector<const GroupPlan*>& groups,
                          std::uint64_t (*bytes_of)(const GroupPlan&)) {
  std::uint64_t in = 0;
  std::uint64_t down = 0;
  for (const GroupPlan* group : groups) {
    if (!group->place) continue;
    std::uint64_t& bytes = group->place->down ? down : in;
    bytes = std::max(bytes, bytes_of(*group));
  }
  return in + down;
}

std::uint64_t group_hessian_bytes(const GroupPlan& group) {
  return calib::resident_hessian_bytes(group.width);
}

std::uint64_t solve_bytes(const Plan& plan, const GroupPlan& group, const cmf::Source& source,
                          int threads) {
  std::vector<std::uint64_t> members;
  for (const std::size_t index : group.tensors)
    members.push_back(sweep_bytes(plan, source, index));
  const std::uint64_t squares = plan.keeps_damped ? 2 : 1;
  return squares * square_bytes(group.width) +
         sum_of_largest(std::move(members), static_cast<std::size_t>(threads));
}

SolveNeeds solve_needs(const Plan& plan, const std::vector<GroupPlan>& groups,
                       const cmf::Source& source, bool resident) {
  const MemoryPlan& memory = plan.memory;
  SolveNeeds result;
  std::uint64_t held = memory.base + memory.hidden_resident();
  std::vector<const GroupPlan*> pointers;
  for (const GroupPlan& group : groups) {
    const std::uint64_t hessian = group_hessian_bytes(group);
    result.groups.push_back(solve_bytes(plan, group, source, plan.threads) +
                            (resident ? 0 : hessian));
    if (resident) held += hessian;
    pointers.push_back(&group);
  }
  held += prior_bytes(pointers, group_hessian_bytes);
  result.limit = memory.budget - std::min(memory.budget, held);
  return result;
}

void plan_memory(Plan& plan, const cmf::Source& source, const model::Forward* forward,
                 std::int64_t tokens, const CalibrationOptions& options, int threads) {
  MemoryPlan& memory = plan.memory;
  plan.threads = threads;
  const auto available = available_memory_bytes();
  memory.base = resident_bytes() + kLaterBytes;
  if (options.memory_gb) {
    const double bytes = *options.memory_gb * 1e9;
    memory.budget = bytes < 0x1p64 ? static_cast<std::uint64_t>(bytes) : kUnlimited;
  } else {
    // What the process holds already is not in what is available.
    memory.budget = available ? *available / 100 * 85 + memory.base : kUnlimited;
  }
  const std::vector<Layer> layers = layers_of(plan, source, forward, tokens);
  std::uint64_t largest = 0;
  for (const Layer& layer : layers) {
    largest = std::max(largest, layer.largest);
    memory.hessians = std::max(memory.hessians, layer.hessians);
    memory.solve = std::max(memory.solve, most(layer.needs));
    memory.layer_weights = std::max(memory.layer_weights, layer.weights);
  }
  if (forward != nullptr) {
    const std::int64_t hidden = forward->arch().hidden;
    memory.hidden_states = product(tokens, hidden, sizeof(float));
    memory.hidden_part = product(forward->rows_in_use(tokens), hidden, sizeof(float));
  }
  memory.spill_hidden = options.spill_folder.has_value();
  if (plan.sequential) {
    const std::uint64_t rest =
        memory.base + set_sequential_needs(plan, source, *forward, tokens);
    memory.spill_hidden = memory.spill_hidden || rest + memory.hidden_states > memory.budget;
    memory.peak = rest + memory.hidden_resident();
  } else {
    plan_one_shot(plan, layers, threads);
  }
  if (memory.peak <= memory.budget) return;
  fail(ErrorKind::kRefused,
       "this run needs {} of memory (the program {}, layer weights {}, the widest Hessian {}, its "
       "fold and sweep {}) and may use {}; free some memory or raise --mem-gb",
       gb(memory.peak), gb(memory.base), gb(memory.layer_weights),
       gb(largest), gb(memory.solve), gb(memory.budget));
}

}  // namespace cortiq::pipeline
