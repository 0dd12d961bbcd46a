// gptq_run.hpp: the stages of one GPTQ run, in the order in which they happen.
#pragma once

#include <functional>
#include <memory>
#include <mutex>
#include <optional>

#include "backend_choice.hpp"
#include "calibration_input.hpp"
#include "cortiq/pipeline/jobs.hpp"
#include "disk_plan.hpp"
#include "expert_prior.hpp"
#include "hessian_files.hpp"
#include "memory_plan.hpp"
#include "run_paths.hpp"
#include "sanitized_source.hpp"
#include "tensor_work.hpp"

namespace cortiq::pipeline {

/// Layer by layer: the forward pass of one layer fills the Hessians of its inputs, its tensors are
/// folded, swept and written, then the Hessians are dropped. So memory holds the Hessians of one
/// layer, never the model.
class GptqRun {
 public:
  GptqRun(const GptqOptions& options, Context& context);
  /// All checks and the plan; nothing is written.
  void prepare();
  /// The work; returns the finished report.
  RunReport execute();
  [[nodiscard]] RunReport& report() { return report_; }

 private:
  void check_paths();
  void open_models();
  void open_caches();
  /// Adds the cache's files; returns those that are to be written.
  [[nodiscard]] std::vector<std::filesystem::path> add_cache_paths(RunPaths& paths) const;
  void check_cache_identity(const calib::HessianCache& cache);
  /// Caches that serve a part of the layers must be of the text that serves the others.
  void check_same_calibration();
  void check_q2tp_floor(const calib::HessianCache& cache, std::int64_t rows) const;
  void check_missing();
  void describe_input();
  void log_plan();

  // gptq_checks.cpp
  /// What will lie on disk at the same time.
  [[nodiscard]] std::vector<DiskItem> disk_items() const;
  void warn_idle_options();

  // gptq_resume.cpp
  void find_leftover();
  void check_leftover(const cmf::Json& run) const;
  /// Everything that decides the bytes of the output.
  [[nodiscard]] cmf::Json fingerprint() const;
  /// A new OUT.partial and journal, or those of the interrupted run with what is good in them.
  void open_output();
  void adopt_leftover();
  [[nodiscard]] std::vector<std::size_t> good_tensors() const;
  /// Drops from `good` what lies in or behind the first layer that is not complete.
  void keep_whole_layers(std::vector<char>& good) const;
  [[noreturn]] void end_early(const Error& error);
  /// Tensors of a group whose reports are complete.
  void record(const GroupPlan& group);
  [[nodiscard]] bool is_done(const GroupPlan& group) const;

  void work();
  void solve_from_cache(TensorJob& job);
  void solve_by_layers(TensorJob& job);
  void solve_sequentially(TensorJob& job);
  /// Hidden states of the forward go to a file.
  void open_spilling_forward();
  [[nodiscard]] std::filesystem::path spill_folder() const;
  // gptq_caches.cpp
  [[nodiscard]] std::vector<GroupPlan> groups_of_file(std::size_t file) const;
  /// Opens the cache file of a layer that is to be written, unless it is open.
  void open_cache_writer(std::int64_t layer);
  /// Completes the file that is open if this was its last layer.
  void close_cache_writer(std::int64_t layer);
  /// Whether a cache file that is to be written still lacks the Hessians of this layer.
  [[nodiscard]] bool cache_lacks(std::int64_t layer) const;
  /// Groups of one layer, or that hold experts of one layer, whose Hessians a cache has.
  void solve_cached(TensorJob& job, const std::vector<GroupPlan>& groups,
                    const std::function<void()>& progress);
  /// The last layer whose Hessians are still needed; -1 for none.
  [[nodiscard]] std::int64_t last_open_layer() const;
  void run_one_layer(TensorJob& job, std::int64_t layer, model::HiddenStates& states);
  void solve_captured(TensorJob& job, calib::Capture& capture,
                      const std::vector<GroupPlan>& groups);
  /// Calls solve(i) for each of the needs, as many at the same time as workers and memory allow.
  void solve_batches(SolveNeeds needs, const std::function<void(std::size_t)>& solve);
  /// The model whose inputs are recorded.
  [[nodiscard]] const cmf::Source& forward_source() const {
    if (sanitized_) return *sanitized_;
    return calib_source_ ? *calib_source_ : *source_;
  }
  void solve_one(TensorJob& job, const GroupPlan& group, calib::Hessian& hessian);
  struct Ready {
    std::int64_t prior_rows = 0;                          ///< that are part of the Hessian
    const std::vector<DecodedTensor>* targets = nullptr;  ///< null: the tensors' own weights
  };
  void solve_ready(TensorJob& job, const GroupPlan& group, const calib::Hessian& hessian,
                   const Ready& ready);
  void miss_group(TensorJob& job, const GroupPlan& group, std::int64_t rows);
  void plan_priors();
  [[nodiscard]] std::vector<GroupPlan> groups_of_layer(std::int64_t layer) const;
  [[nodiscard]] cmf::Header output_header() const;
  void finish();
  void judge();
  void add_warning(std::string text);
  void time_phase(const std::string& name, double seconds);

  const GptqOptions& options_;
  Context& context_;
  RunReport report_;
  std::filesystem::path output_;
  std::unique_ptr<cmf::Source> source_;
  std::unique_ptr<cmf::Source> calib_source_;   ///< null: the input itself
  std::unique_ptr<SanitizedSource> sanitized_;  ///< what the forward reads with --sanitize
  std::unique_ptr<model::Forward> forward_;     ///< null: served by a cache
  HessianFiles files_;  ///< caches; without --hessians none
  std::optional<CalibrationInput> input_;
  std::string model_hash_;
  std::optional<Leftover> left_;  ///< of the interrupted run that this one continues
  std::unique_ptr<cmf::Writer> writer_;
  std::unique_ptr<RunJournal> journal_;
  std::optional<calib::HessianCacheWriter> cache_writer_;
  std::vector<char> to_write_;  ///< by file of files_
  std::size_t writing_ = 0;     ///< the file that cache_writer_ writes
  BackendChoice backend_;
  Plan plan_;
  ExpertPriors priors_{0, 0};
  std::mutex warning_mutex_;
  std::size_t planned_warnings_ = 0;  ///< those of prepare(), which keep their order
};

/// Effective options as they go to report and provenance.
[[nodiscard]] cmf::Json options_json(const GptqOptions& options);
[[nodiscard]] bool is_q2tp_profile(const SelectionOptions& selection);
/// provenance.weight_quant and provenance.gptq of the output (cli.md section 4.1).
void add_gptq_provenance(cmf::Header& header, const GptqOptions& options, const RunReport& report);

}  // namespace cortiq::pipeline
