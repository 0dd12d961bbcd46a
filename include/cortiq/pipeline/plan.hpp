// plan.hpp: what a run will do, before it does it: codecs, groups, sizes, memory. No side effects.
#pragma once

#include <cstdint>
#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "cortiq/calib/hessian_cache.hpp"
#include "cortiq/cmf/writer.hpp"
#include "cortiq/model/forward.hpp"
#include "cortiq/pipeline/context.hpp"
#include "cortiq/pipeline/options.hpp"

namespace cortiq::pipeline {

/// Candidates that read one input and so share one Hessian and one fold.
struct GroupPlan {
  std::int64_t layer = 0;
  model::Role role = model::Role::kIn;
  std::int64_t expert = -1;
  std::int64_t width = 0;
  std::vector<std::string> readers;        ///< every tensor that reads the input, candidates or not
  std::vector<std::size_t> tensors;        ///< candidates: indexes into Source::tensors()
  std::size_t cache = 0;                   ///< of the run's caches, the one that serves it
  std::optional<std::size_t> cache_entry;  ///< where a cache serves it
  std::optional<model::ExpertPlace> place;  ///< where a routed expert reads the input
};

/// The input that the matrices of a group share.
[[nodiscard]] model::InputGroup input_of(const GroupPlan& group);
[[nodiscard]] std::vector<model::InputGroup> input_groups_of(const std::vector<GroupPlan>& groups);

/// Bytes (memory_plan.hpp).
struct MemoryPlan {
  std::uint64_t base = 0;           ///< what the process holds when the run is planned
  std::uint64_t hidden_states = 0;  ///< of all windows
  std::uint64_t layer_weights = 0;  ///< f32 weights, panels and input pages of one layer
  std::uint64_t hessians = 0;       ///< of the widest layer
  std::uint64_t solve = 0;          ///< most of the groups that run at the same time
  std::int64_t groups_at_once = 1;
  std::uint64_t budget = 0;
  std::uint64_t peak = 0;  ///< of the whole process
  bool spill_hidden = false;
  std::uint64_t hessian_limit = 0;  ///< > 0: Hessians beyond this lie on disk
  std::uint64_t hidden_part = 0;    ///< of them, what is in memory when they lie on disk
  [[nodiscard]] std::uint64_t hidden_resident() const {
    return spill_hidden ? hidden_part : hidden_states;
  }
};

struct Plan {
  bool sequential = false;                 ///< both streams, one input at a time
  bool keeps_damped = false;               ///< folds keep the damped H for the polish
  bool fits_row_scale = false;             ///< the polish holds Q and Q H_d of a chunk
  std::vector<TensorChoice> choices;       ///< per tensor of the source
  std::vector<cmf::PlannedTensor> output;  ///< same order
  std::vector<GroupPlan> groups;           ///< in execution order
  std::vector<std::size_t> ungrouped;      ///< candidates that no input group or cache entry serves
  std::uint64_t output_bytes = 0;
  std::uint64_t input_bytes = 0;
  std::int64_t tokens = 0;
  std::int64_t window = 0;
  int threads = 1;  ///< workers of the run
  MemoryPlan memory;
};

/// Codec choice and output sizes (variable-size codecs are encoded once to learn their size).
[[nodiscard]] Plan plan_tensors(const cmf::Source& source, const SelectionOptions& selection,
                                float q1s_keep, bool sanitize, Context& context);
/// Names the matrices that miss GPTQ for their width, with it; empty if there is none.
[[nodiscard]] std::string unfit_text(const Plan& plan, const cmf::Source& source);
/// "a, b, c": at most 40 names, then how many more.
[[nodiscard]] std::string name_list(const std::vector<std::string>& names);
/// Groups of the candidates by the model's structure.
void plan_groups_by_structure(Plan& plan, const cmf::Source& source, const model::Arch& arch);
/// Groups of the candidates by the entries of a cache.
void plan_groups_by_cache(Plan& plan, const cmf::Source& source, const calib::HessianCache& cache);
/// Memory of the run; decides what lies on disk and how many groups are solved at the same time (at
/// most one per worker). Throws Error{kRefused} if it cannot fit in the budget.
void plan_memory(Plan& plan, const cmf::Source& source, const model::Forward* forward,
                 std::int64_t tokens, const CalibrationOptions& options, int threads);
/// Mean bits per weight of the planned output.
struct BitsPerWeight {
  double layers = 0;  ///< of the matrices but embedding and head; 0 = none
  double all = 0;     ///< of all tensors
};
[[nodiscard]] BitsPerWeight bits_per_weight(const Plan& plan);
/// Human-readable plan.
[[nodiscard]] std::vector<std::string> plan_lines(const Plan& plan, const cmf::Source& source);

}  // namespace cortiq::pipeline
