#include <cmath>

#include "one_bit_options.hpp"

#include <algorithm>
#include <initializer_list>

namespace cortiq::app {
namespace {

using codec::Codec;

bool may_get(const pipeline::SelectionOptions& selection, std::initializer_list<Codec> codecs) {
  const auto listed = [&](Codec codec) {
    return std::find(codecs.begin(), codecs.end(), codec) != codecs.end();
  };
  return listed(selection.profile) ||
         std::any_of(selection.overrides.begin(), selection.overrides.end(),
                     [&](const codec::TensorOverride& entry) { return listed(entry.codec); });
}

void refuse(const CLI::App& command, std::initializer_list<const char*> options, const char* why) {
  for (const char* option : options) {
    if (command.count(option) > 0) fail(ErrorKind::kUsage, "{}: {}", option, why);
  }
}

}  // namespace

void add_one_bit_options(CLI::App& command, OneBitArguments& a) {
  command
      .add_option("--keep", a.keep, "q1s, q1t: share of the weights kept as halves (default 0.01)")
      ->check(CLI::Range(0.0, 0.25));
  command
      .add_option("--down-keep", a.down_keep,
                  "q1s, q1t: --keep times this for down_proj, at most 0.25 (default 1)")
      ->check(CLI::Range(1.0, 1e6));
  command.add_flag("--col-mask", a.column_mask, "q1s, q1t: keep whole input channels instead");
  command.add_flag("--no-row-rescale", a.no_row_rescale,
                   "q1t: no common factor for a row's scales");
  command
      .add_option("--max-cols", a.max_cols,
                  "q1s, q1t: matrices with more columns are copied (default: no limit)")
      ->check(CLI::Range(std::int64_t{32}, std::int64_t{1} << 40));
}

void apply_one_bit(const CLI::App& command, const OneBitArguments& arguments,
                   pipeline::GptqOptions& options) {
  pipeline::SelectionOptions& selection = options.selection;
  const bool one_bit = may_get(selection, {Codec::kQ1s, Codec::kQ1t});
  if (!one_bit) {
    refuse(command, {"--keep", "--down-keep", "--col-mask", "--max-cols"},
           "has an effect only where a tensor gets q1s or q1t (--codec or --tensor-quant)");
  }
  if (!may_get(selection, {Codec::kQ1t})) {
    refuse(command, {"--no-row-rescale"},
           "has an effect only where a tensor gets q1t (--codec q1t or --tensor-quant …=q1t)");
  }
  if (!may_get(selection, {Codec::kQ4tp, Codec::kQ2tp})) {
    refuse(command, {"--ladder", "--q4tp-debias"},
           "has no effect with q1s and q1t, which have no ladders; leave it out");
    if (command.count("--rung") > 0 && options.rung == gptq::Rung::kAll) {
      fail(ErrorKind::kUsage,
           "--rung all: q1s and q1t have no ladders; use --rung sim, which tries 20 scales");
    }
  }
  if (one_bit && options.order == gptq::Order::kAct) {
    fail(ErrorKind::kUsage,
         "--order act: q1s and q1t choose the scale of a group when the sweep reaches it, so its "
         "columns must stay together; use --order group or natural");
  }
  for (const double share : {arguments.keep, arguments.down_keep})
    if (!std::isfinite(share)) fail(ErrorKind::kUsage, "--keep, --down-keep {}: expected a number", share);
  if (arguments.keep == 0 && command.count("--down-keep") + command.count("--col-mask") > 0) {
    fail(ErrorKind::kUsage,
         "--keep 0 keeps no weights, so --down-keep and --col-mask have no effect; leave them out");
  }
  selection.one_bit.keep = arguments.keep;
  selection.one_bit.column_mask = arguments.column_mask;
  selection.one_bit.row_rescale = !arguments.no_row_rescale;
  selection.down_keep = arguments.down_keep;
  selection.max_cols = arguments.max_cols;
}

}  // namespace cortiq::app
