// cortiq-quant hessians capture | merge | inspect.
#include <algorithm>
#include <cmath>

#include "command.hpp"
#include "cortiq/cmf/header.hpp"
#include "cortiq/pipeline/jobs.hpp"
#include "model_options.hpp"

namespace cortiq::app {
namespace {

/// Damping at which the condition is shown, the default of gptq.
constexpr double kLambda = 0.01;
/// Channels listed in the text form.
constexpr std::size_t kListed = 8;

struct CaptureArguments {
  std::filesystem::path model;
  std::filesystem::path output;
  CalibrationArguments calibration;
  std::string codec = "q4tp";
  std::string part = "1/1";
  std::int64_t chunk_layers = 0;
};

int execute_capture(const CaptureArguments& arguments, const CommonOptions& common) {
  pipeline::CaptureOptions options;
  options.calibration = parse_calibration(arguments.calibration);
  options.q2tp = arguments.codec == "q2tp";
  options.part = calib::parse_part(arguments.part);
  options.chunk_layers = arguments.chunk_layers;
  Session session(common);
  const pipeline::CaptureResult result =
      pipeline::run_capture(arguments.model, arguments.output, options, session.context());
  session.context().log.info("{} Hessians from {} tokens in {} windows", result.entries,
                             result.tokens, result.windows);
  for (const auto& file : result.files) print(fmt::format("✓ wrote {}\n", file.string()));
  return 0;
}

struct MergeArguments {
  std::vector<std::filesystem::path> paths;  ///< inputs, then the output
  bool force = false;
};

int execute_merge(const MergeArguments& arguments, const CommonOptions& common) {
  const std::vector<std::filesystem::path> inputs(arguments.paths.begin(),
                                                  arguments.paths.end() - 1);
  const std::filesystem::path& output = arguments.paths.back();
  Session session(common);
  const calib::MergeResult result =
      pipeline::run_merge(inputs, output, {arguments.force}, session.context());
  session.context().log.info(
      "{} Hessians of {} cache files{}", result.entries, result.caches,
      result.identity ? fmt::format(", {} tokens", result.identity->tokens) : "");
  print(fmt::format("✓ wrote {}\n", output.string()));
  return 0;
}

struct InspectArguments {
  std::filesystem::path cache;
  bool quick = false;
  bool json = false;
};

cmf::Json condition_json(const std::optional<calib::Condition>& condition) {
  if (!condition) return nullptr;
  const auto finite = [](double value) { return std::isfinite(value) ? cmf::Json(value) : nullptr; };
  return {{"largest_eigenvalue", condition->largest},
          {"smallest_eigenvalue",
           condition->smallest ? cmf::Json(*condition->smallest) : cmf::Json(nullptr)},
          {"condition", finite(condition->number(0))},
          {"damped_lambda", kLambda},
          {"damped_condition", finite(condition->number(kLambda))}};
}

cmf::Json entry_json(const calib::CacheEntryStats& entry) {
  return {{"names", entry.names},
          {"cols", entry.cols},
          {"count", entry.count},
          {"triangle", entry.has_triangle},
          {"dead_channels", entry.health.dead_channels},
          {"outlier_channels", entry.health.outlier_channels},
          {"dead", entry.channels.dead},
          {"outliers", entry.channels.outliers},
          {"mean_diagonal", entry.health.mean_diagonal},
          {"rank_deficient", entry.health.rank_deficient},
          {"conditioning", condition_json(entry.condition)},
          {"warnings", entry.warnings}};
}

std::string list_text(std::string_view what, const std::vector<std::int64_t>& channels) {
  if (channels.empty()) return {};
  const std::size_t shown = std::min(channels.size(), kListed);
  return fmt::format("    {} channels: {}{}\n", what,
                     fmt::join(channels.begin(),
                               channels.begin() + static_cast<std::ptrdiff_t>(shown), ", "),
                     shown < channels.size() ? ", …" : "");
}

std::string condition_text(const std::optional<calib::Condition>& condition) {
  if (!condition) return {};
  const std::string own =
      condition->smallest ? fmt::format("{:.1e}", condition->number(0)) : "singular";
  return fmt::format("  condition {:>8}, damped {:.1e}", own, condition->number(kLambda));
}

std::string entry_text(const calib::CacheEntryStats& entry) {
  std::string text = fmt::format(
      "  {:<50} {:>2} names  n {:>6}  rows {:>8}  dead {:>5}  outliers {:>5}  mean diagonal "
      "{:.4e}{}{}{}\n",
      entry.names.empty() ? "(no name)" : entry.names.front(), entry.names.size(), entry.cols,
      entry.count, entry.health.dead_channels, entry.health.outlier_channels,
      entry.health.mean_diagonal, condition_text(entry.condition),
      entry.health.rank_deficient ? "  fewer rows than channels" : "",
      entry.has_triangle ? "" : "  diagonal only");
  text += list_text("dead", entry.channels.dead);
  text += list_text("outlier", entry.channels.outliers);
  for (const std::string& warning : entry.warnings) text += "    warning: " + warning + "\n";
  return text;
}

int execute_inspect(const InspectArguments& arguments, const CommonOptions& common) {
  Session session(common);
  const pipeline::CacheReport report = pipeline::inspect_cache(
      arguments.cache,
      arguments.quick ? calib::InspectDepth::kDiagonal : calib::InspectDepth::kFull,
      session.context());
  cmf::Json json{{"path", arguments.cache.string()}, {"entries", cmf::Json::array()}};
  std::string text =
      fmt::format("{}: {} Hessians\n", arguments.cache.string(), report.entries.size());
  if (const auto& identity = report.identity) {
    text += fmt::format("  model {}, {} tokens, window {}, BOS {}\n", identity->model_hash,
                        identity->tokens, identity->window, identity->bos ? "on" : "off");
    if (identity->part_count > 1) {
      text += fmt::format("  part {} of {}\n", fmt::join(identity->parts, ", "),
                          identity->part_count);
    }
    if (!identity->layers.whole()) {
      text += fmt::format("  layers {} of {}\n", fmt::join(identity->layers.numbers, ", "),
                          identity->layers.count);
    }
    for (const auto& source : identity->sources)
      text += fmt::format("  source {} sha256 {}\n", source.file, source.sha256);
    json["identity"] = {{"model_hash", identity->model_hash},
                        {"tokens", identity->tokens},
                        {"window", identity->window},
                        {"bos", identity->bos},
                        {"parts", identity->parts},
                        {"part_count", identity->part_count},
                        {"layers", identity->layers.numbers},
                        {"layer_count", identity->layers.count}};
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

void add_capture(CLI::App& command, const CommonOptions& common, Action& action) {
  CLI::App* capture =
      command.add_subcommand("capture", "Run the calibration forward and write the Hessians");
  const auto arguments = std::make_shared<CaptureArguments>();
  capture->add_option("MODEL", arguments->model, "CMF file or Hugging Face folder")->required();
  capture->add_option("OUTPUT", arguments->output, "Cache file to write")->required();
  add_calibration(*capture, arguments->calibration);
  capture
      ->add_option("--codec", arguments->codec,
                   "Codec the cache is meant for: sets the default of --tokens")
      ->check(CLI::IsMember({"q4tp", "q2tp"}));
  capture
      ->add_option("--part", arguments->part,
                   "Only part i of N of the windows; `hessians merge` adds the parts up")
      ->type_name("i/N");
  capture
      ->add_option("--calib-chunk-layers", arguments->chunk_layers,
                   "One cache file for every K layers: OUTPUT.L0-3, OUTPUT.L4-7, ...; 0 = one file "
                   "for all")
      ->type_name("K")
      ->check(CLI::NonNegativeNumber);
  capture->callback([arguments, &common, &action] {
    action = [arguments, &common] { return execute_capture(*arguments, common); };
  });
}

void add_merge(CLI::App& command, const CommonOptions& common, Action& action) {
  CLI::App* merge = command.add_subcommand(
      "merge",
      "Add caches of one model up: the parts of a run, or runs of different texts; or unite the "
      "chunks of a run by layers");
  const auto arguments = std::make_shared<MergeArguments>();
  merge
      ->add_option("CACHES", arguments->paths,
                   "Caches to add, then the file to write; a cache that is not there stands for "
                   "its chunks CACHE.L0-3, CACHE.L4-7, ...")
      ->type_name("A B ... OUT")
      ->required()
      ->expected(2, 1 << 20);
  merge->add_flag("--force", arguments->force,
                  "Merge although identities are missing, differ or overlap; the result has none");
  merge->callback([arguments, &common, &action] {
    action = [arguments, &common] { return execute_merge(*arguments, common); };
  });
}

void add_cache_inspect(CLI::App& command, const CommonOptions& common, Action& action) {
  CLI::App* inspect = command.add_subcommand("inspect", "Show the entries of a cache");
  const auto arguments = std::make_shared<InspectArguments>();
  inspect->add_option("CACHE", arguments->cache, "Cache file")->required();
  inspect->add_flag("--quick", arguments->quick,
                    "Read the diagonals only: no conditions, no check of every value");
  inspect->add_flag("--json", arguments->json, "Result as JSON");
  inspect->callback([arguments, &common, &action] {
    action = [arguments, &common] { return execute_inspect(*arguments, common); };
  });
}

}  // namespace

void add_hessians(CLI::App& app, const CommonOptions& common, Action& action) {
  CLI::App* command =
      app.add_subcommand("hessians", "Write, add up or look into Hessian caches (CMFHESS1)");
  command->require_subcommand(1);
  add_capture(*command, common, action);
  add_merge(*command, common, action);
  add_cache_inspect(*command, common, action);
}

}  // namespace cortiq::app
