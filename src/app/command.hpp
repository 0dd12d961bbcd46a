// command.hpp: what every command shares: common options, the execution context, and how options
// are declared.
#pragma once

#include <CLI/CLI.hpp>
#include <functional>
#include <memory>
#include <string>

#include "console_log.hpp"
#include "cortiq/cmf/header.hpp"
#include "cortiq/pipeline/context.hpp"

namespace cortiq::app {

/// Options that every command has.
struct CommonOptions {
  int threads = 0;
  std::string simd = "auto";
  bool quiet = false;
  bool verbose = false;
  bool json_log = false;
};

/// Set by the signal handler; the only process-wide state of the program.
[[nodiscard]] Interrupt& process_interrupt();

/// Workers and log made from the common options, alive while a command runs.
class Session {
 public:
  explicit Session(const CommonOptions& options);
  [[nodiscard]] pipeline::Context& context() { return context_; }

 private:
  ConsoleLog log_;
  Pool pool_;
  pipeline::Context context_;
};

/// A command's entry point: returns the exit code.
using Action = std::function<int()>;

/// Each declares its sub-command below `app` and stores what to run in `action` when it was chosen.
void add_gptq(CLI::App& app, const CommonOptions& common, Action& action);
void add_quantize(CLI::App& app, const CommonOptions& common, Action& action);
void add_convert(CLI::App& app, const CommonOptions& common, Action& action);
void add_inspect(CLI::App& app, const CommonOptions& common, Action& action);
void add_verify(CLI::App& app, const CommonOptions& common, Action& action);
void add_ppl(CLI::App& app, const CommonOptions& common, Action& action);
void add_kld(CLI::App& app, const CommonOptions& common, Action& action);
void add_compare(CLI::App& app, const CommonOptions& common, Action& action);
void add_hessians(CLI::App& app, const CommonOptions& common, Action& action);
void add_devices(CLI::App& app, const CommonOptions& common, Action& action);
void add_selftest(CLI::App& app, const CommonOptions& common, Action& action);

/// Writes to stdout; a failed write (closed pipe, full disk) is Error{kIo}.
void print(const std::string& text);
/// The same for JSON on one line. Paths may hold any bytes: what is not UTF-8 is replaced.
void print_json(const cmf::Json& json);

}  // namespace cortiq::app
