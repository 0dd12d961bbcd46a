// report.hpp: what a run did, per tensor, and its renderings: closing table, JSON, self-contained
// HTML page.
#pragma once

#include <array>
#include <cstdint>
#include <filesystem>
#include <optional>
#include <string>
#include <vector>

#include "cortiq/calib/corpus.hpp"
#include "cortiq/cmf/header.hpp"
#include "cortiq/pipeline/selection.hpp"

namespace cortiq::pipeline {

struct TensorReport {
  std::string name;
  Action action = Action::kCopy;
  std::string codec;  ///< codec or dtype name in the output
  std::int64_t rows = 0;
  std::int64_t cols = 0;
  std::uint64_t bytes_in = 0;
  std::uint64_t bytes_out = 0;
  std::string note;            ///< why copied, rounded or missed
  bool missed = false;         ///< rounded for want of a usable Hessian, or copied or rounded for its width
  std::int64_t sanitized = 0;  ///< non-finite weights set to zero
  // GPTQ only:
  std::int64_t hessian_rows = 0;  ///< calibration positions
  std::int64_t prior_rows = 0;    ///< that the layer's pooled Hessian counts for, beside those
  double lambda = 0;
  std::int64_t retries = 0;
  bool identity = false;  ///< the Hessian never factored
  std::int64_t dead_channels = 0;
  std::string backend;       ///< "host" or the device's name
  std::string backend_note;  ///< why the host did what a device was meant to do
  std::optional<double> error;      ///< tr(E H E^T)/tr(W H W^T)
  std::optional<double> rtn_error;  ///< the same for rounding with the same codec
  double seconds = 0;
  std::vector<std::int64_t> codes;  ///< how often each code is used (16 of q4tp, 4 of q2tp)
};

struct PhaseTime {
  std::string name;
  double seconds = 0;
};

struct RunReport {
  std::string command;  ///< "gptq" or "quantize"
  std::string input;
  std::string output;
  std::string codec;
  cmf::Json options;  ///< effective options
  std::vector<TensorReport> tensors;
  std::vector<PhaseTime> phases;
  std::vector<calib::SourceReport> sources;
  std::string hessians;  ///< "captured" or "cache <sha256>"
  std::int64_t tokens_wanted = 0;
  std::int64_t tokens_used = 0;
  std::int64_t window = 0;
  std::int64_t windows = 0;
  std::uint64_t bytes_in = 0;
  std::uint64_t bytes_out = 0;
  double bits_per_weight = 0;        ///< of the output; 0 = not known
  double layer_bits_per_weight = 0;  ///< of its matrices without embedding and head
  double seconds = 0;
  double cpu_seconds = 0;
  std::uint64_t peak_memory_bytes = 0;
  cmf::Json device;  ///< which device, groups done there and on the host, and why
  std::vector<std::string> warnings;
  std::optional<double> perplexity_before;
  std::optional<double> perplexity_after;

  [[nodiscard]] std::int64_t gptq_count() const;
  [[nodiscard]] std::int64_t missed_count() const;
  /// Geometric mean over GPTQ tensors of error/rtn_error; nullopt if there is none.
  [[nodiscard]] std::optional<double> mean_error_ratio() const;
};

/// Lines for a terminal: per tensor (or per kind of tensor when there are many), totals, sizes,
/// perplexity.
[[nodiscard]] std::vector<std::string> closing_table(const RunReport& report);
[[nodiscard]] cmf::Json report_json(const RunReport& report);
/// One HTML file without external references: error per layer and tensor, codes used, time per
/// phase.
[[nodiscard]] std::string report_html(const RunReport& report);
/// By suffix: .json or .html. Throws Error{kUsage} for another suffix.
void write_report(const RunReport& report, const std::filesystem::path& path);
void check_report_path(const std::filesystem::path& path);

}  // namespace cortiq::pipeline
