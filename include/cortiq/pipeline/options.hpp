// options.hpp: everything a GPTQ run can be told (cli.md sections 1 and 6).
#pragma once

#include <cstdint>
#include <filesystem>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "cortiq/calib/corpus.hpp"
#include "cortiq/gptq/options.hpp"
#include "cortiq/pipeline/bit_target.hpp"
#include "cortiq/pipeline/selection.hpp"

namespace cortiq::pipeline {

enum class Bos { kOff, kOn, kAuto };

struct CalibrationOptions {
  std::vector<calib::SourceSpec> sources;  ///< empty: the built-in corpus
  std::int64_t tokens = 0;                 ///< 0: 32768, or 131072 for a q2tp profile
  std::int64_t window = 0;  ///< 0: 2048 or the model's max_position_embeddings if less
  Bos bos = Bos::kOff;
  bool verify_teacher = true;  ///< read and check all of a .tdata folder
  std::optional<std::filesystem::path>
      calib_model;  ///< the forward runs on this file instead of the input
  std::optional<std::filesystem::path>
      spill_folder;  ///< hidden states go there; default: memory, or beside the output
  std::optional<double> memory_gb;  ///< budget; default 85 % of what is available
};

/// A recipe; options given one by one replace its parts (docs/quality.md).
enum class Effort {
  kFast,     ///< one-shot, no polish
  kDefault,  ///< two polish passes; sequential for the q2tp profile
  kHigh,     ///< sequential, four polish passes with group moves, all rungs, 131072 tokens
};

/// Sequential calibration with a corrected target (docs/quality.md section 5).
struct SequentialOptions {
  std::optional<bool> wanted;  ///< not given: by codec and effort
  double alpha = 0.75;         ///< strength of the correction; 0 = quantized inputs only
  double rho = 0.01;           ///< ridge of its solution, in units of mean(diag H)
};

struct DeviceOptions {
  std::string device = "auto";  ///< auto, cpu, vulkan[:WHICH[,WHICH…]]
  std::optional<double> vram_gb;  ///< device memory to use; default: 95 % of what is free
  std::optional<std::filesystem::path> cache_folder;  ///< where compiled kernels are kept
};

struct GptqOptions {
  std::vector<std::string> given;  ///< options that were named ("--keep"), to warn of idle ones
  std::filesystem::path input;
  std::filesystem::path output;  ///< empty: derived from input and codec
  SelectionOptions selection;
  CalibrationOptions calibration;
  std::optional<std::filesystem::path> hessians;
  std::int64_t chunk_layers = 0;  ///< layers per cache file; 0: one file
  bool hessians_force = false;
  bool allow_missing_hessians = false;
  bool allow_few_tokens = false;
  std::int64_t max_missed = 0;
  std::int64_t min_rows = 32;             ///< experts with fewer rows get a prior
  std::optional<std::int64_t> moe_prior;  ///< rows that it counts for; 0 = none, then rounding;
                                          ///< not given: hidden size
  DeviceOptions device;
  BitTarget bits;  ///< --target-bpw, --target-size: the codecs are chosen by measured losses
  double lambda = 0.01;
  gptq::Order order = gptq::Order::kGroup;
  gptq::Rung rung = gptq::Rung::kSim;
  gptq::LadderFit ladder = gptq::LadderFit::kFit;
  Effort effort = Effort::kDefault;
  SequentialOptions sequential;
  int polish = 2;  ///< passes of coordinate descent after the sweep
  bool group_moves = false;  ///< each pass first moves whole groups
  bool row_scale = false;    ///< rows get their best scale after the first pass
  bool q2tp_debias = true;
  bool q4tp_debias = false;
  bool sanitize = false;
  bool dry_run = false;
  bool resume = false;  ///< continue an interrupted run, if there is one
  std::vector<std::filesystem::path> reports;  ///< .json or .html
  std::filesystem::path recipe;  ///< where the caller writes its recipe afterwards: never an input or another output
  std::filesystem::path recipe_input;  ///< that the caller has read; empty: none
  std::optional<std::filesystem::path>
      perplexity_text;  ///< --ppl: judge input and output on this text
};

/// Error{kUsage} unless `value` is a positive number below 1e9.
void check_gigabytes(std::string_view option, double value);

/// As asked for; else with high effort, and with default effort for the q2tp profile where no
/// Hessian cache is named. Error{kUsage} for sequential calibration together with a cache.
[[nodiscard]] bool runs_sequentially(const GptqOptions& options);

struct QuantizeOptions {
  std::filesystem::path input;
  std::filesystem::path output;
  std::filesystem::path recipe;  ///< as in GptqOptions
  std::filesystem::path recipe_input;  ///< as in GptqOptions
  SelectionOptions selection;
  float q1s_keep = 0.01F;
  bool sanitize = false;
  bool dry_run = false;
};

inline constexpr std::int64_t kLeastQ2tpTokens = 32768;

}  // namespace cortiq::pipeline
