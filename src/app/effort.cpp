#include "effort.hpp"

#include <cmath>
#include <utility>

#include "cortiq/support/error.hpp"

namespace cortiq::app {
namespace {

constexpr int kHighPolish = 4;
constexpr std::int64_t kHighTokens = 131072;

void check_sequential(const CLI::App& command, const EffortArguments& arguments,
                      const pipeline::GptqOptions& options) {
  if (arguments.sequential && arguments.no_sequential) {
    fail(ErrorKind::kUsage, "--sequential and --no-sequential contradict each other; give one");
  }
  for (const char* option : {"--seq-alpha", "--seq-rho"}) {
    if (command.count(option) == 0) continue;
    if (!pipeline::runs_sequentially(options)) {
      fail(ErrorKind::kUsage, "{}: has an effect only with sequential calibration (--sequential)",
           option);
    }
    const double value = command.get_option(option)->as<double>();
    if (!std::isfinite(value))
      fail(ErrorKind::kUsage, "{} {}: expected a finite number", option, value);
  }
}

void check_moves(const CLI::App& command, const pipeline::GptqOptions& options) {
  if (options.polish > 0) return;
  for (const auto& [option, wanted] : {std::pair{"--group-moves", options.group_moves},
                                       std::pair{"--row-scale", options.row_scale}}) {
    if (command.count(option) == 0 || !wanted) continue;
    fail(ErrorKind::kUsage,
         "{}: is a part of the polish, which this run does not have (--polish 0; also the default "
         "with --rung diag, --order act and --effort fast); give --polish N or leave it out",
         option);
  }
}

void apply_high(const CLI::App& command, pipeline::GptqOptions& options) {
  if (options.order == gptq::Order::kAct) {
    fail(ErrorKind::kUsage,
         "--effort high: tries all rungs and polishes, which --order act does not allow; leave out "
         "one of them");
  }
  if (command.count("--polish") == 0) options.polish = kHighPolish;
  if (command.count("--rung") == 0) options.rung = gptq::Rung::kAll;
  if (command.count("--group-moves") == 0) options.group_moves = options.polish > 0;
  // A cache was made from the tokens it was made from.
  if (command.count("--tokens") == 0 && !options.hessians)
    options.calibration.tokens = kHighTokens;
}

}  // namespace

void add_effort_options(CLI::App& command, EffortArguments& arguments,
                        pipeline::SequentialOptions& sequential) {
  command
      .add_option("--effort", arguments.effort,
                  "Recipe: fast (one-shot, no polish), default, high (sequential, all rungs, 4 "
                  "polish passes with group moves, 131072 tokens); single options replace its "
                  "parts")
      ->check(CLI::IsMember({"fast", "default", "high"}));
  command.add_flag("--sequential", arguments.sequential,
                   "Calibrate each layer on the output of the quantized layers before it and "
                   "correct towards the original outputs (default with --codec q2tp and no "
                   "--hessians)");
  command.add_flag("--no-sequential", arguments.no_sequential,
                   "Calibrate all layers on the original model");
  command
      .add_option("--seq-alpha", sequential.alpha,
                  "Strength of the sequential correction, 0 to 2 (default 0.75)")
      ->check(CLI::Range(0.0, 2.0));
  command
      .add_option("--seq-rho", sequential.rho,
                  "Ridge of the sequential correction relative to the mean of diag H (default "
                  "0.01)")
      ->check(CLI::Range(0.0, 1e6));
}

void apply_effort(const CLI::App& command, const EffortArguments& arguments,
                  pipeline::GptqOptions& options) {
  using pipeline::Effort;
  options.effort = arguments.effort == "high"   ? Effort::kHigh
                   : arguments.effort == "fast" ? Effort::kFast
                                                : Effort::kDefault;
  if (arguments.sequential) options.sequential.wanted = true;
  if (arguments.no_sequential) options.sequential.wanted = false;
  if (options.effort == Effort::kHigh) apply_high(command, options);
  if (options.effort == Effort::kFast && command.count("--polish") == 0) options.polish = 0;
  check_sequential(command, arguments, options);
  check_moves(command, options);
}

}  // namespace cortiq::app
