// cortiq-quant hessians capture | inspect.
#include "command.hpp"
#include "cortiq/cmf/header.hpp"
#include "cortiq/pipeline/jobs.hpp"
#include "model_options.hpp"

namespace cortiq::app {
namespace {

struct CaptureArguments {
  std::filesystem::path model;
  std::filesystem::path output;
  CalibrationArguments calibration;
  std::string codec = "q4tp";
};

int execute_capture(const CaptureArguments& arguments, const CommonOptions& common) {
  Session session(common);
  const pipeline::CaptureResult result = pipeline::run_capture(
      arguments.model, arguments.output, parse_calibration(arguments.calibration), arguments.codec,
      session.context());
  session.context().log.info("{} Hessians from {} tokens in {} windows", result.entries,
                             result.tokens, result.windows);
  print(fmt::format("✓ wrote {}\n", arguments.output.string()));
  return 0;
}

struct InspectArguments {
  std::filesystem::path cache;
  bool full = false;
  bool json = false;
};

cmf::Json entry_json(const calib::CacheEntryStats& entry) {
  return {{"names", entry.names},
          {"cols", entry.cols},
          {"count", entry.count},
          {"triangle", entry.has_triangle},
          {"dead_channels", entry.health.dead_channels},
          {"outlier_channels", entry.health.outlier_channels},
          {"mean_diagonal", entry.health.mean_diagonal},
          {"rank_deficient", entry.health.rank_deficient},
          {"warnings", entry.warnings}};
}

std::string entry_text(const calib::CacheEntryStats& entry) {
  std::string text = fmt::format(
      "  {:<50} {:>2} names  n {:>6}  rows {:>8}  dead {:>5}  outliers {:>5}  mean diagonal "
      "{:.4e}{}{}\n",
      entry.names.empty() ? "(no name)" : entry.names.front(), entry.names.size(), entry.cols,
      entry.count, entry.health.dead_channels, entry.health.outlier_channels,
      entry.health.mean_diagonal, entry.health.rank_deficient ? "  fewer rows than channels" : "",
      entry.has_triangle ? "" : "  diagonal only");
  for (const std::string& warning : entry.warnings) text += "    warning: " + warning + "\n";
  return text;
}

int execute_inspect(const InspectArguments& arguments) {
  const pipeline::CacheReport report = pipeline::inspect_cache(arguments.cache, arguments.full);
  cmf::Json json{{"path", arguments.cache.string()}, {"entries", cmf::Json::array()}};
  std::string text =
      fmt::format("{}: {} Hessians\n", arguments.cache.string(), report.entries.size());
  if (const auto& identity = report.identity) {
    text += fmt::format("  model {}, {} tokens, window {}, BOS {}\n", identity->model_hash,
                        identity->tokens, identity->window, identity->bos ? "on" : "off");
    for (const auto& source : identity->sources)
      text += fmt::format("  source {} sha256 {}\n", source.file, source.sha256);
    json["identity"] = {{"model_hash", identity->model_hash},
                        {"tokens", identity->tokens},
                        {"window", identity->window},
                        {"bos", identity->bos}};
  } else {
    text += "  no identity file beside it\n";
  }
  for (const calib::CacheEntryStats& entry : report.entries) {
    text += entry_text(entry);
    json["entries"].push_back(entry_json(entry));
  }
  if (arguments.json) {
    print_json(json);
  } else {
    print(text);
  }
  return 0;
}

}  // namespace

void add_hessians(CLI::App& app, const CommonOptions& common, Action& action) {
  CLI::App* command =
      app.add_subcommand("hessians", "Write or look into a Hessian cache (CMFHESS1)");
  command->require_subcommand(1);
  CLI::App* capture =
      command->add_subcommand("capture", "Run the calibration forward and write the Hessians");
  const auto capture_arguments = std::make_shared<CaptureArguments>();
  capture->add_option("MODEL", capture_arguments->model, "CMF file or Hugging Face folder")
      ->required();
  capture->add_option("OUTPUT", capture_arguments->output, "Cache file to write")->required();
  add_calibration(*capture, capture_arguments->calibration);
  capture
      ->add_option("--codec", capture_arguments->codec,
                   "Codec the cache is meant for: sets the default of --tokens")
      ->check(CLI::IsMember({"q4tp", "q2tp"}));
  capture->callback([capture_arguments, &common, &action] {
    action = [capture_arguments, &common] { return execute_capture(*capture_arguments, common); };
  });
  CLI::App* inspect = command->add_subcommand("inspect", "Show the entries of a cache");
  const auto inspect_arguments = std::make_shared<InspectArguments>();
  inspect->add_option("CACHE", inspect_arguments->cache, "Cache file")->required();
  inspect->add_flag("--full", inspect_arguments->full, "Read and check every value");
  inspect->add_flag("--json", inspect_arguments->json, "Result as JSON");
  inspect->callback([inspect_arguments, &action] {
    action = [inspect_arguments] { return execute_inspect(*inspect_arguments); };
  });
}

}  // namespace cortiq::app
