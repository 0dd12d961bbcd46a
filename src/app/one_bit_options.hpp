// one_bit_options.hpp: the options of q1s and q1t (cli.md sections 1 and 6).
#pragma once

#include <CLI/CLI.hpp>

#include "cortiq/pipeline/options.hpp"

namespace cortiq::app {

struct OneBitArguments {
  double keep = 0.01;
  double down_keep = 1;
  bool column_mask = false;
  bool no_row_rescale = false;
  std::int64_t max_cols = 0;
};
void add_one_bit_options(CLI::App& command, OneBitArguments& arguments);

/// Takes them over. Error{kUsage} for one that has no effect with these codecs, and for options of
/// the ladder codecs where only q1s or q1t are written.
void apply_one_bit(const CLI::App& command, const OneBitArguments& arguments,
                   pipeline::GptqOptions& options);

}  // namespace cortiq::app
