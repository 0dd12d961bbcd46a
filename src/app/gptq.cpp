// cortiq-quant gptq: calibrate and quantize.
#include <cmath>

#include "bit_options.hpp"
#include "command.hpp"
#include "cortiq/pipeline/jobs.hpp"
#include "effort.hpp"
#include "model_options.hpp"
#include "one_bit_options.hpp"
#include "recipe.hpp"

namespace cortiq::app {
namespace {

struct Arguments {
  pipeline::GptqOptions options;
  SelectionArguments selection;
  CalibrationArguments calibration;
  OneBitArguments one_bit;
  EffortArguments effort;
  BitArguments bits;
  std::string order = "group";
  std::string rung = "sim";
  std::string ladder = "fit";
  bool act_order = false;
  std::string rule = "placed";
  std::vector<std::string> rule_tensors;
  std::string q2tp_debias = "on";
  std::string skip;
  RecipeArguments recipe;
  const CLI::App* command = nullptr;

  [[nodiscard]] bool given(const std::string& option) const { return command->count(option) > 0; }
  [[nodiscard]] bool empty(const std::string& option) const {
    return given(option) && command->get_option(option)->as<std::string>().empty();
  }
};

bool parse_switch(const std::string& option, const std::string& text) {
  if (text == "on" || text == "true" || text == "1") return true;
  if (text == "off" || text == "false" || text == "0") return false;
  fail(ErrorKind::kUsage, "{} {}: expected on or off", option, text);
}

std::vector<std::string> split_commas(const std::string& text) {
  std::vector<std::string> parts;
  std::size_t begin = 0;
  while (begin <= text.size()) {
    const std::size_t end = std::min(text.find(',', begin), text.size());
    if (end > begin) parts.push_back(text.substr(begin, end - begin));
    begin = end + 1;
  }
  return parts;
}

void parse_order(const Arguments& arguments, pipeline::GptqOptions& options) {
  if (arguments.act_order && arguments.given("--order") && arguments.order != "act") {
    fail(ErrorKind::kUsage,
         "--act-order means --order act and contradicts --order {}; give only one",
         arguments.order);
  }
  const bool act = arguments.act_order || arguments.order == "act";
  if (act && (arguments.given("--rung") || arguments.given("--ladder"))) {
    fail(ErrorKind::kUsage,
         "--order act fixes rungs and ladders beforehand, so --rung and --ladder have no effect "
         "with it; "
         "leave them out or use --order group");
  }
  options.order = act                            ? gptq::Order::kAct
                  : arguments.order == "natural" ? gptq::Order::kNatural
                                                 : gptq::Order::kGroup;
  options.rung = arguments.rung == "diag"  ? gptq::Rung::kDiag
                 : arguments.rung == "all" ? gptq::Rung::kAll
                                           : gptq::Rung::kSim;
  options.ladder =
      arguments.ladder == "converter" ? gptq::LadderFit::kConverter : gptq::LadderFit::kFit;
  if (act && arguments.given("--polish") && options.polish > 0) {
    fail(ErrorKind::kUsage,
         "--polish {}: has no effect with --order act; use --order group or natural",
         options.polish);
  }
  // The existing tool's algorithm (diagonal rungs) stays as it is unless more is asked for.
  if (!arguments.given("--polish") && (act || options.rung == gptq::Rung::kDiag))
    options.polish = 0;
}

void parse_q2tp(const Arguments& arguments, pipeline::GptqOptions& options) {
  const bool q2tp_possible =
      options.bits.given() ||
      options.selection.profile == codec::Codec::kQ2tp ||
      std::any_of(
          options.selection.overrides.begin(), options.selection.overrides.end(),
          [](const codec::TensorOverride& entry) { return entry.codec == codec::Codec::kQ2tp; });
  for (const char* option :
       {"--q2tp-rule", "--q2tp-rule-tensor", "--q2tp-debias", "--allow-few-tokens"}) {
    if (arguments.given(option) && !q2tp_possible) {
      fail(
          ErrorKind::kUsage,
          "{}: has an effect only where a tensor gets q2tp (--codec q2tp or --tensor-quant …=q2tp)",
          option);
    }
  }
  options.selection.rule = pipeline::parse_rule(arguments.rule);
  for (const std::string& text : arguments.rule_tensors) {
    options.selection.rule_overrides.push_back(pipeline::parse_rule_override(text));
  }
  options.q2tp_debias = parse_switch("--q2tp-debias", arguments.q2tp_debias);
}

void check_numbers(const pipeline::GptqOptions& options) {
  if (!std::isfinite(options.lambda))
    fail(ErrorKind::kUsage, "--lambda {}: expected a finite number", options.lambda);
  const auto memory = options.calibration.memory_gb;
  if (memory) pipeline::check_gigabytes("--mem-gb", *memory);
}

pipeline::GptqOptions parse(const Arguments& arguments) {
  pipeline::GptqOptions options = arguments.options;
  options.selection = parse_selection(arguments.selection);
  options.selection.include = arguments.options.selection.include;
  const codec::Codec profile = options.selection.profile;
  if (!pipeline::gptq_target(profile)) {
    fail(ErrorKind::kUsage,
         "--codec {}: gptq writes q4tp, q2tp, q1s or q1t; `cortiq-quant quantize --codec {}` rounds to it "
         "without "
         "calibration",
         arguments.selection.codec, arguments.selection.codec);
  }
  options.calibration = parse_calibration(arguments.calibration);
  options.calibration.memory_gb = arguments.options.calibration.memory_gb;
  options.calibration.calib_model = arguments.options.calibration.calib_model;
  options.bits = parse_bits(arguments.bits);
  parse_order(arguments, options);
  parse_q2tp(arguments, options);
  apply_one_bit(*arguments.command, arguments.one_bit, options);
  if (arguments.given("--skip")) {
    options.selection.skip = split_commas(arguments.skip);
    options.selection.skip_given = true;
  }
  if (options.bits.given() && gptq::is_one_bit(*pipeline::gptq_target(options.selection.profile)))
    fail(ErrorKind::kUsage, "--codec {} and a target of bits contradict each other; give one of them", arguments.selection.codec);
  for (const CLI::Option* option : arguments.command->get_options()) {
    if (option->count() > 0 && !option->get_positional())
      options.given.push_back("--" + option->get_single_name());
  }
  check_numbers(options);
  apply_effort(*arguments.command, arguments.effort, options);
  options.lambda = std::max(options.lambda, 0.0);
  for (const char* option : {"--target-bpw", "--target-size", "--vram-gb"}) {
    if (arguments.empty(option)) fail(ErrorKind::kUsage, "{}: expected a value", option);
  }
  if (options.bits.given() && arguments.given("--codec") && options.selection.profile == codec::Codec::kQ2tp)
    fail(ErrorKind::kUsage, "--codec q2tp: with a target of bits every matrix gets a codec of its own; leave --codec out");
  for (const char* option : {"--output", "--hessians"}) {
    if (arguments.empty(option)) fail(ErrorKind::kUsage, "{}: expected the path of a file", option);
  }
  if (options.min_rows == 0 && options.moe_prior.value_or(0) > 0) {
    fail(ErrorKind::kUsage,
         "--moe-prior {}: has no effect with --min-rows 0, below which no expert falls; leave out "
         "one of them",
         *options.moe_prior);
  }
  if (!options.hessians) {
    for (const char* option :
         {"--hessians-force", "--allow-missing-hessians", "--calib-chunk-layers"}) {
      if (arguments.given(option))
        fail(ErrorKind::kUsage, "{}: has an effect only together with --hessians", option);
    }
  }
  return options;
}

void log_table(const pipeline::RunReport& report, Log& log) {
  for (const std::string& line : pipeline::closing_table(report)) log.info("{}", line);
}

/// Files of the run that a recipe must not be written over.
std::vector<std::filesystem::path> files_of(const pipeline::GptqOptions& options) {
  std::vector<std::filesystem::path> files{options.input};
  for (const auto& source : options.calibration.sources) files.push_back(source.path);
  for (const auto& path : {options.hessians, options.perplexity_text, options.calibration.calib_model})
    if (path) files.push_back(*path);
  files.insert(files.end(), options.reports.begin(), options.reports.end());
  if (!options.output.empty()) files.push_back(options.output);
  return files;
}

int execute(const Arguments& arguments, const CommonOptions& common) {
  pipeline::GptqOptions options = parse(arguments);
  check_recipe_output(*arguments.command, arguments.recipe, files_of(options));
  options.recipe = arguments.recipe.output;
  options.recipe_input = arguments.recipe.input;
  Session session(common);
  const pipeline::RunReport report = pipeline::run_gptq(options, session.context());
  write_recipe(*arguments.command, arguments.recipe,
               options.bits.given() && report.options.contains("tensor_quant")
                   ? report.options.at("tensor_quant").get<std::vector<std::string>>()
                                    : std::vector<std::string>{});
  if (options.dry_run) {
    session.context().log.info("dry run: nothing was written; the output would be {}",
                               report.output);
    return 0;
  }
  log_table(report, session.context().log);
  print(fmt::format("✓ wrote {}\n", report.output));
  const std::int64_t missed = report.missed_count();
  if (missed > options.max_missed && !(options.allow_missing_hessians && options.hessians)) {
    fail(ErrorKind::kRefused,
         "{}: was written, but {} tensors that should have been quantized with GPTQ were not "
         "(allowed: --max-missed {}); they are listed above and in the report",
         report.output, missed, options.max_missed);
  }
  return 0;
}

void add_sweep_options(CLI::App& command, Arguments& a) {
  command.add_option("--lambda", a.options.lambda,
                     "Relative damping of the Hessian (negative counts as 0; default 0.01)");
  command.add_option("--order", a.order, "Order of the columns: natural, group, act")
      ->check(CLI::IsMember({"natural", "group", "act"}));
  command.add_flag("--act-order", a.act_order, "The same as --order act");
  command.add_option("--rung", a.rung, "Choice of a group's scale: diag, sim, or all (sim on every rung)")
      ->check(CLI::IsMember({"diag", "sim", "all"}));
  command.add_option("--ladder", a.ladder, "Placement of a row's scale ladder: converter or fit")
      ->check(CLI::IsMember({"converter", "fit"}));
  command
      .add_option("--polish", a.options.polish,
                  "Passes of coordinate descent on the codes (default 2; 0 with --rung diag or "
                  "--order act)")
      ->check(CLI::Range(0, 64));
  command.add_flag("--group-moves,!--no-group-moves", a.options.group_moves,
                   "Each pass of the polish first moves whole groups, scales included (part of "
                   "--effort high)");
  command.add_flag("--row-scale,!--no-row-scale", a.options.row_scale,
                   "After the first pass of the polish every row gets the scale that fits it best "
                   "(on the host)");
  command.add_option("--q2tp-rule", a.rule, "q2tp ladders: placed (full) or cortiq (absmax)");
  command
      .add_option("--q2tp-rule-tensor", a.rule_tensors,
                  "PATTERN=RULE for single tensors; first match wins")
      ->type_name("PATTERN=RULE")
      ->expected(1)
      ->multi_option_policy(CLI::MultiOptionPolicy::TakeAll);
  command.add_option("--q2tp-debias", a.q2tp_debias,
                     "Rescale q2tp rows so that they do not shrink: on or off");
  command.add_flag("--q4tp-debias", a.options.q4tp_debias, "Rescale q4tp rows too");
}

void add_policy_options(CLI::App& command, Arguments& a) {
  command.add_option(
      "--skip", a.skip,
      "Comma list of substrings of names that are only rounded (default embed_tokens,lm_head)");
  command
      .add_option("--include", a.options.selection.include,
                  "Only tensors that match a GLOB are GPTQ candidates")
      ->type_name("GLOB")
      ->expected(1)
      ->multi_option_policy(CLI::MultiOptionPolicy::TakeAll);
  command.add_option("--hessians", a.options.hessians,
                     "CMFHESS1 cache: used if it exists, else written");
  command
      .add_option("--calib-chunk-layers", a.options.chunk_layers,
                  "One cache file for every so many layers (PATH.L0-3, PATH.L4-7, …)")
      ->check(CLI::Range(std::int64_t{0}, std::int64_t{1} << 20));
  command.add_flag("--hessians-force", a.options.hessians_force,
                   "Use a cache although it belongs to another model or text");
  command.add_flag("--allow-missing-hessians", a.options.allow_missing_hessians,
                   "Round the tensors that a cache lacks");
  command
      .add_option("--max-missed", a.options.max_missed,
                  "Candidates that may end up rounded before the exit code is 3")
      ->check(CLI::Range(std::int64_t{0}, std::int64_t{1} << 40));
  command
      .add_option("--min-rows", a.options.min_rows,
                  "Experts that fewer calibration rows reach get their layer's pooled Hessian as a "
                  "prior (default 32)")
      ->check(CLI::Range(std::int64_t{0}, std::int64_t{1} << 40));
  command
      .add_option("--moe-prior", a.options.moe_prior,
                  "Rows that this prior counts for (default: hidden size); 0 = no prior, such "
                  "experts are rounded")
      ->check(CLI::Range(std::int64_t{0}, std::int64_t{1} << 40));
  command.add_flag("--allow-few-tokens", a.options.allow_few_tokens,
                   "Allow q2tp with fewer than 32768 tokens");
  command.add_flag("--sanitize", a.options.sanitize,
                   "Set NaN and infinite weights to zero instead of stopping");
  command.add_option("--mem-gb", a.options.calibration.memory_gb,
                     "Memory budget in GB (default 85 % of what is free)");
  command.add_option("--calib-model", a.options.calibration.calib_model,
                     "Run the calibration forward on this model instead of INPUT");
}

}  // namespace

void add_gptq(CLI::App& app, const CommonOptions& common, Action& action) {
  CLI::App* command = app.add_subcommand("gptq", "Quantize a model with GPTQ to q4tp, q2tp, q1s or q1t");
  const auto arguments = std::make_shared<Arguments>();
  arguments->command = command;
  command
      ->add_option("INPUT", arguments->options.input,
                   "CMF file (shard 1 opens all) or Hugging Face folder")
      ->required();
  command->add_option("--output", arguments->options.output,
                      "Output file (default: INPUT-CODEC.cmf)");
  command->add_option("--codec", arguments->selection.codec,
                      "q4tp, q2tp (2 bits for gate and up, 4 for the rest), q1s (signs) or q1t "
                      "(ternary)");
  add_selection(*command, arguments->selection);
  add_calibration(*command, arguments->calibration);
  add_effort_options(*command, arguments->effort, arguments->options.sequential);
  add_sweep_options(*command, *arguments);
  add_one_bit_options(*command, arguments->one_bit);
  add_policy_options(*command, *arguments);
  add_device_options(*command, arguments->options.device);
  add_bit_options(*command, arguments->bits);
  add_recipe_options(*command, arguments->recipe);
  command
      ->add_option("--report", arguments->options.reports,
                   "Report FILE.json or FILE.html; repeatable")
      ->expected(1)
      ->multi_option_policy(CLI::MultiOptionPolicy::TakeAll);
  command
      ->add_option("--ppl", arguments->options.perplexity_text,
                   "Perplexity of input and output on this text (windows of 256)")
      ->check(CLI::ExistingFile);
  command->add_flag("--dry-run", arguments->options.dry_run, "Show the plan, do nothing");
  command->add_flag("--resume", arguments->options.resume,
                    "Continue an interrupted run of the same command (OUTPUT.partial); start anew "
                    "if there is none");
  command->callback([arguments, &common, &action] {
    action = [arguments, &common] { return execute(*arguments, common); };
  });
}

}  // namespace cortiq::app
