// model_options.hpp: groups of options that several commands share.
#pragma once

#include <CLI/CLI.hpp>
#include <string>
#include <vector>

#include "cortiq/pipeline/options.hpp"

namespace cortiq::app {

/// Text of the codec options, turned into SelectionOptions once parsed.
struct SelectionArguments {
  std::string codec = "q4tp";
  std::string embeddings;
  std::vector<std::string> tensor_quant;
};
void add_selection(CLI::App& command, SelectionArguments& arguments);
[[nodiscard]] pipeline::SelectionOptions parse_selection(const SelectionArguments& arguments);

struct CalibrationArguments {
  std::vector<std::string> sources;
  pipeline::CalibrationOptions options;
  std::string bos = "off";
  std::string verify_teacher;
};
void add_calibration(CLI::App& command, CalibrationArguments& arguments);
[[nodiscard]] pipeline::CalibrationOptions parse_calibration(const CalibrationArguments& arguments);

/// --device and --vram-gb.
void add_device_options(CLI::App& command, pipeline::DeviceOptions& options);
/// Where compiled kernels are kept: below XDG_CACHE_HOME or ~/.cache; nullopt where neither is known.
[[nodiscard]] std::optional<std::filesystem::path> kernel_cache_folder();

[[nodiscard]] pipeline::Bos parse_bos(const std::string& text);

}  // namespace cortiq::app
