// bit_options.hpp: --target-bpw and --target-size.
#pragma once

#include <CLI/CLI.hpp>
#include <optional>
#include <string>

#include "cortiq/pipeline/options.hpp"

namespace cortiq::app {

struct BitArguments {
  std::optional<double> bits_per_weight;
  std::string file_size;
};
void add_bit_options(CLI::App& command, BitArguments& arguments);
/// Throws Error{kUsage}.
[[nodiscard]] pipeline::BitTarget parse_bits(const BitArguments& arguments);

}  // namespace cortiq::app
