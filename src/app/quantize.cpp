// cortiq-quant quantize: rounding without calibration. cortiq-quant convert: Hugging Face folder to
// CMF.
#include <cmath>

#include "command.hpp"
#include "cortiq/pipeline/jobs.hpp"
#include "model_options.hpp"
#include "recipe.hpp"

namespace cortiq::app {
namespace {

struct QuantizeArguments {
  pipeline::QuantizeOptions options;
  SelectionArguments selection;
  RecipeArguments recipe;
  const CLI::App* command = nullptr;
};

int execute_quantize(const QuantizeArguments& arguments, const CommonOptions& common,
                     bool keep_given) {
  pipeline::QuantizeOptions options = arguments.options;
  options.selection = parse_selection(arguments.selection);
  options.selection.gptq = false;
  const bool q1s =
      options.selection.profile == codec::Codec::kQ1s ||
      std::any_of(
          options.selection.overrides.begin(), options.selection.overrides.end(),
          [](const codec::TensorOverride& entry) { return entry.codec == codec::Codec::kQ1s; });
  if (!std::isfinite(options.q1s_keep))
    fail(ErrorKind::kUsage, "--keep {}: expected a number from 0 to 0.25", options.q1s_keep);
  if (keep_given && !q1s) fail(ErrorKind::kUsage, "--keep: has an effect only with q1s");
  std::vector<std::filesystem::path> files{options.input};
  if (!options.output.empty()) files.push_back(options.output);
  check_recipe_output(*arguments.command, arguments.recipe, files);
  options.recipe = arguments.recipe.output;
  options.recipe_input = arguments.recipe.input;
  Session session(common);
  const pipeline::RunReport report = pipeline::run_quantize(options, session.context());
  write_recipe(*arguments.command, arguments.recipe);
  if (options.dry_run) {
    session.context().log.info("dry run: nothing was written; the output would be {}",
                               report.output);
    return 0;
  }
  for (const std::string& line : pipeline::closing_table(report))
    session.context().log.info("{}", line);
  print(fmt::format("✓ wrote {}\n", report.output));
  return 0;
}

struct ConvertArguments {
  std::filesystem::path folder;
  std::filesystem::path output;
  std::string dtype = "f16";
};

int execute_convert(const ConvertArguments& arguments, const CommonOptions& common) {
  const cmf::DType dtype = arguments.dtype == "f32"    ? cmf::DType::kF32
                           : arguments.dtype == "bf16" ? cmf::DType::kBf16
                                                       : cmf::DType::kF16;
  Session session(common);
  const std::uint64_t bytes =
      pipeline::run_convert(arguments.folder, arguments.output, dtype, session.context());
  session.context().log.info("{} bytes", bytes);
  print(fmt::format("✓ wrote {}\n", arguments.output.string()));
  return 0;
}

}  // namespace

void add_quantize(CLI::App& app, const CommonOptions& common, Action& action) {
  CLI::App* command =
      app.add_subcommand("quantize", "Round a model to a codec, without calibration");
  const auto arguments = std::make_shared<QuantizeArguments>();
  command
      ->add_option("INPUT", arguments->options.input,
                   "CMF file (shard 1 opens all) or Hugging Face folder")
      ->required();
  command->add_option("--output", arguments->options.output,
                      "Output file (default: INPUT-CODEC.cmf)");
  command->add_option("--codec", arguments->selection.codec,
                      "Codec profile: " + codec::codec_names());
  add_selection(*command, arguments->selection);
  add_recipe_options(*command, arguments->recipe);
  arguments->command = command;
  const CLI::Option* keep =
      command
          ->add_option("--keep", arguments->options.q1s_keep, "q1s: share of weights kept as f16")
          ->check(CLI::Range(0.0, 0.25));
  command->add_flag("--sanitize", arguments->options.sanitize,
                    "Set NaN and infinite weights to zero instead of stopping");
  command->add_flag("--dry-run", arguments->options.dry_run, "Show the plan, do nothing");
  command->callback([arguments, keep, command, &common, &action] {
    if (command->count("--output") > 0 && arguments->options.output.empty())
      throw CLI::ValidationError("--output", "expected the path of a file");
    const bool keep_given = keep->count() > 0;
    action = [arguments, keep_given, &common] {
      return execute_quantize(*arguments, common, keep_given);
    };
  });
}

void add_convert(CLI::App& app, const CommonOptions& common, Action& action) {
  CLI::App* command = app.add_subcommand("convert", "Turn a Hugging Face folder into a CMF file");
  const auto arguments = std::make_shared<ConvertArguments>();
  command->add_option("HF_DIR", arguments->folder, "Hugging Face model folder")->required();
  command->add_option("OUTPUT", arguments->output, "CMF file to write")->required();
  command->add_option("--dtype", arguments->dtype, "Type of the matrices: f16, bf16 or f32")
      ->check(CLI::IsMember({"f16", "bf16", "f32"}));
  command->callback([arguments, &common, &action] {
    action = [arguments, &common] { return execute_convert(*arguments, common); };
  });
}

}  // namespace cortiq::app
