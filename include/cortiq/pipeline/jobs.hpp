// jobs.hpp: the jobs behind the commands. Each throws Error; none prints to stdout.
#pragma once

#include <cstdint>
#include <filesystem>
#include <optional>
#include <string>
#include <vector>

#include "cortiq/calib/hessian_cache.hpp"
#include "cortiq/calib/hessian_merge.hpp"
#include "cortiq/calib/part.hpp"
#include "cortiq/cmf/dtype.hpp"
#include "cortiq/cmf/source.hpp"
#include "cortiq/model/score.hpp"
#include "cortiq/pipeline/context.hpp"
#include "cortiq/pipeline/options.hpp"
#include "cortiq/pipeline/report.hpp"

namespace cortiq::pipeline {

/// INPUT stem + "-" + codec + ".cmf", beside the input (a folder: beside the folder).
[[nodiscard]] std::filesystem::path derived_output(const std::filesystem::path& input,
                                                   std::string_view codec);

/// GPTQ end to end. With options.dry_run the plan is logged and nothing is written.
RunReport run_gptq(const GptqOptions& options, Context& context);
/// Rounding only.
RunReport run_quantize(const QuantizeOptions& options, Context& context);

/// Hugging Face folder -> CMF file with float weights. Returns bytes written.
std::uint64_t run_convert(const std::filesystem::path& folder, const std::filesystem::path& output,
                          cmf::DType dtype, Context& context);

struct JudgeOptions {
  std::filesystem::path text;
  std::int64_t window = 0;  ///< 0 = 256, or the model's positions if fewer
  std::int64_t stride = 0;  ///< 0 = window
  std::int64_t tokens = 0;  ///< 0 = all
  Bos bos = Bos::kOff;
};
/// Throws Error where run_perplexity would refuse the text for this model.
void check_judge_text(const cmf::Source& source, const JudgeOptions& options);
[[nodiscard]] model::Perplexity run_perplexity(const std::filesystem::path& model,
                                               const JudgeOptions& options, Context& context);
[[nodiscard]] model::Divergence run_divergence(const std::filesystem::path& base,
                                               const std::filesystem::path& test,
                                               const JudgeOptions& options, Context& context);

struct CaptureOptions {
  CalibrationOptions calibration;
  bool q2tp = false;  ///< the cache is meant for q2tp: sets the default of the tokens
  calib::Part part;   ///< only these windows
  std::int64_t chunk_layers = 0;  ///< a file for every so many layers; 0: one for all
};
struct CaptureResult {
  std::int64_t entries = 0;
  std::int64_t tokens = 0;
  std::int64_t windows = 0;
  std::vector<std::filesystem::path> files;
};
/// Runs the calibration forward and writes the Hessian of every linear input to a CMFHESS1 file, or
/// to chunks of it by layers.
CaptureResult run_capture(const std::filesystem::path& model, const std::filesystem::path& output,
                          const CaptureOptions& options, Context& context);
/// Adds caches up (calib::merge_caches); warnings go to the log.
calib::MergeResult run_merge(const std::vector<std::filesystem::path>& inputs,
                             const std::filesystem::path& output,
                             const calib::MergeOptions& options, Context& context);

/// Entries and identity of a CMFHESS1 file.
struct CacheReport {
  std::optional<calib::CacheIdentity> identity;
  std::vector<calib::CacheEntryStats> entries;
};
[[nodiscard]] CacheReport inspect_cache(const std::filesystem::path& cache,
                                        calib::InspectDepth depth, Context& context);

}  // namespace cortiq::pipeline
