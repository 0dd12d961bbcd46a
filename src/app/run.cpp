#include "cortiq/app/run.hpp"

#include <fcntl.h>
#include <malloc.h>

#include <algorithm>
#include <csignal>
#include <cstdio>
#include <cstdlib>
#include <filesystem>
#include <new>

#include "command.hpp"
#include "recipe.hpp"

extern char** environ;

namespace cortiq::app {
namespace {

int exit_code(ErrorKind kind) {
  switch (kind) {
    case ErrorKind::kUsage:
      return 2;
    case ErrorKind::kRefused:
      return 3;
    case ErrorKind::kInterrupted:
      return 130;
    default:
      return 1;
  }
}

/// A message outside of a session, in the style that the options ask for.
void say(const CommonOptions& common, LogLevel level, const std::string& message) {
  if (common.json_log) {
    ConsoleLog(LogStyle::kJson, level).write(level, message);
    return;
  }
  std::fprintf(stderr, "cortiq-quant: %s: %s\n", level == LogLevel::kError ? "error" : "warning",
               message.c_str());
}

extern "C" void handle_signal(int) { process_interrupt().request(); }

/// Variables of the existing tool that this program does not read, and the option that replaces
/// each.
struct Replaced {
  const char* variable;
  const char* option;
};
constexpr Replaced kReplaced[] = {
    {"CMF_GPTQ_SKIP", "--skip"},
    {"CMF_GPTQ_MEM_GB", "--mem-gb"},
    {"CMF_GPTQ_ALLOW_RTN", "--max-missed or --allow-missing-hessians"},
    {"CMF_ENCODE_THREADS", "--threads"},
    {"CMF_GPTQ_CALIB", "--calib-model"},
};

void warn_environment(const CommonOptions& common) {
  for (char** entry = environ; *entry != nullptr; ++entry) {
    const std::string text(*entry);
    if (!text.starts_with("CMF_")) continue;
    const std::string name = text.substr(0, text.find('='));
    const char* option = nullptr;
    for (const Replaced& replaced : kReplaced) {
      if (name == replaced.variable) option = replaced.option;
    }
    say(common, LogLevel::kWarning,
        fmt::format("the environment variable {} has no effect here{}{}", name,
                    option != nullptr ? "; use " : "", option != nullptr ? option : ""));
  }
}

void add_common(CLI::App& app, CommonOptions& common) {
  app.add_option("--threads", common.threads,
                 "Worker threads (0 = all cores); never changes a result")
      ->check(CLI::Range(0, 4096));
  app.add_option("--simd", common.simd, "Kernels to use: auto, portable, avx2, avx512")
      ->check(CLI::IsMember({"auto", "portable", "avx2", "avx512"}));
  CLI::Option* quiet = app.add_flag("--quiet", common.quiet, "Only warnings and errors");
  app.add_flag("--verbose", common.verbose, "Also details")->excludes(quiet);
  app.add_flag("--json-log", common.json_log, "Log and progress as JSON lines on stderr");
}

/// A closed standard stream would give its number to the next file that is opened, and messages
/// would be written into that file. Opened for reading only, writing fails as it did before.
void occupy_standard_descriptors() {
  for (int descriptor = 0; descriptor <= 2; ++descriptor) {
    if (::fcntl(descriptor, F_GETFD) < 0) (void)::open("/dev/null", O_RDONLY);
  }
}

/// Known before the words are parsed, so that what is wrong with them is said in this style too.
bool asks_for_json(const std::vector<std::string>& words) {
  return std::find(words.begin(), words.end(), "--json-log") != words.end();
}

/// What the library calls a missing command may be one that is not known. Empty: no word stands where it belongs.
std::string unknown_command(const CLI::App& app) {
  if (!app.get_subcommands().empty()) return {};
  const std::vector<std::string> rest = app.remaining();
  const auto word = std::find_if(rest.begin(), rest.end(), [](const std::string& text) { return !text.starts_with("-"); });
  if (word == rest.end()) return {};
  std::vector<std::string> known;
  for (const CLI::App* command : app.get_subcommands({})) known.push_back(command->get_name());
  return fmt::format("unknown command '{}'; the commands are {}", *word, fmt::join(known, ", "));
}

/// Exit code for words that were not understood, or ask for help or version (0).
int explain(const CLI::App& app, const CLI::ParseError& error, const CommonOptions& common) {
  const bool failed = error.get_exit_code() != static_cast<int>(CLI::ExitCodes::Success);
  if (const std::string unknown = failed ? unknown_command(app) : std::string(); !unknown.empty()) {
    say(common, LogLevel::kError, unknown);
    return 2;
  }
  if (!failed || !common.json_log) return app.exit(error, std::cout, std::cerr) == 0 ? 0 : 2;
  say(common, LogLevel::kError, fmt::format("{}; --help lists the options", error.what()));
  return 2;
}

int run_checked(const CommonOptions& common, const Action& action) {
  try {
    return action();
  } catch (const Error& error) {
    say(common, LogLevel::kError, error.what());
    return exit_code(error.kind());
  } catch (const std::bad_alloc&) {
    say(common, LogLevel::kError, "out of memory; close other programs, or lower --tokens");
    return 1;
  } catch (const std::filesystem::filesystem_error& error) {
    say(common, LogLevel::kError,
        fmt::format("{}: {}; check the path", error.path1().string(), error.code().message()));
    return 1;
  } catch (const std::exception& error) {
    say(common, LogLevel::kError,
        fmt::format("unexpected failure: {}; this is a defect of the program, please "
                    "report it together with the command",
                    error.what()));
    return 1;
  }
}

}  // namespace

Interrupt& process_interrupt() {
  static Interrupt interrupt;
  return interrupt;
}

Session::Session(const CommonOptions& options)
    : log_(options.json_log ? LogStyle::kJson : LogStyle::kText, options.quiet ? LogLevel::kWarning
                                                                 : options.verbose
                                                                     ? LogLevel::kDebug
                                                                     : LogLevel::kInfo),
      pool_(options.threads, try_parse_simd(options.simd).value_or(detect_simd())),
      context_{pool_, log_, process_interrupt()} {
  if (options.simd != "auto" && pool_.simd() != *try_parse_simd(options.simd)) {
    fail(ErrorKind::kUsage,
         "--simd {}: this processor or build has no {} kernels; the best it has is {}",
         options.simd, options.simd, simd_name(detect_simd()));
  }
}

void print(const std::string& text) {
  if (std::fwrite(text.data(), 1, text.size(), stdout) != text.size() || std::fflush(stdout) != 0) {
    fail(ErrorKind::kIo, "standard output cannot be written; check where it leads (a closed pipe, a full disk)");
  }
}

void print_json(const cmf::Json& json) {
  print(json.dump(-1, ' ', false, cmf::Json::error_handler_t::replace) + "\n");
}

/// What is freed goes back to the system at once, so that the memory in use is what the plan of a
/// run counts. (By default the C library raises this limit to 32 MiB while it runs.)
void give_back_what_is_freed() {
#ifdef __GLIBC__
  constexpr int kMappedFromBytes = 1 << 20;
  ::mallopt(M_MMAP_THRESHOLD, kMappedFromBytes);
#endif
}

int run(int argc, char** argv) {
  occupy_standard_descriptors();
  std::signal(SIGXFSZ, SIG_IGN);  // a write beyond the limit on file sizes fails, and that is said
  give_back_what_is_freed();
  CLI::App app("GPTQ quantizer for CMF language models");
  app.name("cortiq-quant");
  app.set_version_flag("--version", "cortiq-quant " CORTIQ_VERSION);
  app.require_subcommand(1);
  app.fallthrough();
  CommonOptions common;
  add_common(app, common);
  Action action;
  add_gptq(app, common, action);
  add_quantize(app, common, action);
  add_convert(app, common, action);
  add_inspect(app, common, action);
  add_verify(app, common, action);
  add_ppl(app, common, action);
  add_kld(app, common, action);
  add_compare(app, common, action);
  add_hessians(app, common, action);
  add_devices(app, common, action);
  add_selftest(app, common, action);
  const std::vector<std::string> line(argv + std::min(argc, 1), argv + argc);
  common.json_log = asks_for_json(line);
  const int parsed = run_checked(common, [&] {
    try {
      std::vector<std::string> words = expand_recipe(app, line);
      std::reverse(words.begin(), words.end());  // as the library wants them
      app.parse(std::move(words));
    } catch (const CLI::ParseError& error) {
      const int code = explain(app, error, common);
      return code == 0 ? -1 : code;
    }
    return 0;
  });
  if (parsed != 0) return parsed < 0 ? 0 : parsed;
  std::signal(SIGINT, handle_signal);
  std::signal(SIGTERM, handle_signal);
  std::signal(SIGPIPE, SIG_IGN);
  warn_environment(common);
  return run_checked(common, action);
}

}  // namespace cortiq::app
