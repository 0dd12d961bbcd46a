// The checks and the plan of a GPTQ run: all that can be known before the work starts.
#include <algorithm>

#include "cortiq/pipeline/jobs.hpp"
#include "cortiq/support/file.hpp"
#include "cortiq/support/memory.hpp"
#include "gptq_run.hpp"
#include "sequential_plan.hpp"

namespace cortiq::pipeline {
namespace fs = std::filesystem;
namespace {

/// Whether any tensor is to get two bits, by the profile or by name.
bool asks_for_q2tp(const SelectionOptions& selection) {
  const auto& overrides = selection.overrides;
  return is_q2tp_profile(selection) ||
         std::any_of(overrides.begin(), overrides.end(), [](const codec::TensorOverride& entry) {
           return entry.codec == codec::Codec::kQ2tp;
         });
}

/// The polish and the row factors of q1t work with the damped Hessian.
bool keeps_damped(const GptqOptions& options, const Plan& plan) {
  return options.polish > 0 ||
         std::any_of(plan.choices.begin(), plan.choices.end(), [](const TensorChoice& choice) {
           return choice.action == Action::kGptq && choice.codec == codec::Codec::kQ1t &&
                  choice.one_bit.row_rescale;
         });
}

/// The Hessians of another model fit only if its matrices have the same shapes.
void check_same_shapes(const cmf::Source& source, const cmf::Source& calib_source) {
  for (const cmf::TensorInfo& tensor : source.tensors()) {
    const auto index = calib_source.find(tensor.name);
    if (!index || calib_source.tensors()[*index].shape == tensor.shape) continue;
    fail(ErrorKind::kInput,
         "--calib-model {}: tensor {} has shape {} there and {} in {}; give the same model in "
         "another precision",
         calib_source.path().string(), tensor.name,
         fmt::join(calib_source.tensors()[*index].shape, "x"), fmt::join(tensor.shape, "x"),
         source.path().string());
  }
}

}  // namespace

GptqRun::GptqRun(const GptqOptions& options, Context& context)
    : options_(options), context_(context) {}

void GptqRun::prepare() {
  static_cast<void>(runs_sequentially(options_));  // refuses before any file is read
  if (!options_.calibration.sources.empty()) calib::check_sources(options_.calibration.sources);
  backend_.resolve(options_.device, context_);
  open_models();
  check_paths();
  find_leftover();
  plan_ = plan_tensors(*source_, options_.selection, 0.01F, options_.sanitize, context_);
  const bool any =
      std::any_of(plan_.choices.begin(), plan_.choices.end(),
                  [](const TensorChoice& choice) { return choice.action == Action::kGptq; });
  const std::string unfit = unfit_text(plan_, *source_);
  if (!any && !options_.bits.given()) {  // an allocation may well give every matrix eight bits
    fail(ErrorKind::kRefused,
         "{}: no tensor can be quantized with GPTQ (float matrices with a q4tp, q2tp, q1s or q1t "
         "codec, outside the skip list{}); `cortiq-quant inspect` shows the tensors, `quantize` rounds without "
         "calibration",
         source_->path().string(), unfit.empty() ? "" : "; " + unfit);
  }
  if (!unfit.empty()) add_warning(unfit);
  open_caches();
  if (files_.serve_all()) {
    plan_groups_by_caches(plan_, *source_, files_);
  } else {
    const cmf::Source& runs_on = calib_source_ ? *calib_source_ : *source_;
    forward_ = std::make_unique<model::Forward>(forward_source(), context_.pool);
    input_ = load_calibration(runs_on, forward_->arch(), options_.calibration,
                              asks_for_q2tp(options_.selection), options_.allow_few_tokens,
                              context_.log);
    log_sources(*input_, context_.log);
    plan_groups_by_structure(plan_, *source_, forward_->arch());
    if (files_.serve_any()) {
      check_same_calibration();
      assign_cache_entries(plan_, *source_, files_);
    }
  }
  check_missing();
  plan_priors();
  plan_.keeps_damped = keeps_damped(options_, plan_);
  plan_.fits_row_scale = options_.row_scale && options_.polish > 0;
  plan_.sequential = runs_sequentially(options_);
  describe_input();
  plan_memory(plan_, *source_, forward_.get(), input_ ? input_->corpus.windows.tokens() : 0,
              options_.calibration, context_.pool.threads());
  log_plan();
  warn_idle_options();
  check_disk(disk_items());
}

void GptqRun::plan_priors() {
  const bool experts = std::any_of(plan_.groups.begin(), plan_.groups.end(),
                                   [](const GroupPlan& group) { return group.place.has_value(); });
  if (!experts) return;
  const auto& arch = source_->header().arch();
  const auto hidden = arch.find("hidden_size");
  const bool known = hidden != arch.end() && hidden->is_number_integer();
  const std::int64_t rows =
      options_.moe_prior.value_or(known ? hidden->get<std::int64_t>() : std::int64_t{0});
  priors_ = ExpertPriors(options_.min_rows, rows);
  report_.options["min_rows"] = options_.min_rows;
  report_.options["moe_prior"] = rows;
}

void GptqRun::open_models() {
  const NonFinite non_finite = options_.sanitize ? NonFinite::kSanitize : NonFinite::kRefuse;
  source_ = open_source(options_.input, non_finite);
  for (std::string& warning : source_warnings(*source_)) add_warning(std::move(warning));
  if (const std::string reason = refusal_to_quantize(*source_); !reason.empty()) {
    fail(ErrorKind::kUnsupported, "{}: {}", options_.input.string(), reason);
  }
  if (options_.calibration.calib_model) {
    calib_source_ = open_source(*options_.calibration.calib_model, non_finite);
    check_same_shapes(*source_, *calib_source_);
  }
  if (options_.sanitize) {
    for (std::string& problem : section_problems(*source_)) add_warning(std::move(problem));
    sanitized_ = std::make_unique<SanitizedSource>(calib_source_ ? *calib_source_ : *source_);
  }
  if (options_.perplexity_text) {
    JudgeOptions judge;
    judge.text = *options_.perplexity_text;
    check_judge_text(*source_, judge);
  }
  output_ = options_.output.empty()
                ? derived_output(options_.input, codec::codec_name(options_.selection.profile))
                : options_.output;
  report_.command = "gptq";
  report_.input = options_.input.string();
  report_.output = output_.string();
  report_.codec = codec::codec_name(options_.selection.profile);
  report_.options = options_json(options_);
  report_.options["device"] = backend_.name();
}

void GptqRun::check_paths() {
  RunPaths paths;
  paths.reads(source_->files(), "input file");
  if (calib_source_) paths.reads(calib_source_->files(), "input file");
  for (const auto& source : options_.calibration.sources) paths.reads(source.path, "input file");
  paths.reads(options_.perplexity_text.value_or(""), "input file");
  paths.reads(options_.recipe_input, "input file");
  paths.writes_model(output_);
  std::vector<fs::path> results{output_};
  for (const fs::path& report : options_.reports) {
    check_report_path(report);
    paths.writes(report, "report");
    results.push_back(report);
  }
  if (!options_.recipe.empty()) {
    paths.writes(options_.recipe, "recipe");
    results.push_back(options_.recipe);
  }
  const std::vector<fs::path> new_caches = add_cache_paths(paths);
  paths.check();
  results.insert(results.end(), new_caches.begin(), new_caches.end());
  for (const fs::path& result : results) check_output_path(result, {});
  for (const fs::path& cache : new_caches) calib::HessianCacheWriter::check_place(cache);
  if (options_.calibration.spill_folder) check_spill_folder(*options_.calibration.spill_folder);
}

std::vector<fs::path> GptqRun::add_cache_paths(RunPaths& paths) const {
  if (!options_.hessians) return {};
  std::vector<fs::path> files{*options_.hessians};
  const HessianFiles chunks(*options_.hessians, options_.chunk_layers, count_layers(*source_));
  for (const HessianFile& chunk : chunks.files()) {
    if (chunk.path != files.front()) files.push_back(chunk.path);
  }
  std::vector<fs::path> to_write;
  for (const fs::path& file : files) {
    if (file_identity(file)) {  // a cache that is there is only read
      paths.reads({file, calib::sidecar_path(file)}, "Hessian cache");
    } else {
      paths.writes_cache(file);
      to_write.push_back(file);
    }
  }
  return to_write;
}

void GptqRun::describe_input() {
  if (!input_) return;
  if (!files_.serve_any()) report_.hessians = "captured";
  report_.tokens_wanted = input_->corpus.tokens_wanted;
  report_.tokens_used = input_->corpus.windows.tokens();
  report_.window = input_->settings.window;
  report_.windows = input_->corpus.windows.count();
  report_.sources = input_->corpus.sources;
}

void GptqRun::check_cache_identity(const calib::HessianCache& cache) {
  const auto cached = cache.identity();
  if (!cached) {
    add_warning(
        fmt::format("{}: has no identity file beside it, so it cannot be checked that these "
                    "Hessians belong to this "
                    "model and text",
                    cache.path().string()));
    std::int64_t rows = 0;
    for (const calib::CacheEntry& entry : cache.entries()) rows = std::max(rows, entry.count);
    check_q2tp_floor(cache, rows);
    return;
  }
  const cmf::Source& runs_on = calib_source_ ? *calib_source_ : *source_;
  calib::CacheIdentity wanted = *cached;
  // Parts of a calibration are to be merged first.
  wanted.parts.clear();
  wanted.part_count = 1;
  wanted.model_hash = model_identity(runs_on, context_.pool);
  if (!runs_on.vocab().empty()) wanted.tokenizer_hash = tokenizer_identity(runs_on);
  if (!options_.calibration.sources.empty() || options_.calibration.tokens > 0 ||
      options_.calibration.window > 0 || options_.calibration.bos != Bos::kOff) {
    // The person names a corpus or a budget: then the cache must have been made from it.
    const model::Arch arch = model::read_arch(runs_on);
    const CalibrationInput input = load_calibration(
        runs_on, arch, options_.calibration, asks_for_q2tp(options_.selection), true, context_.log);
    wanted = cache_identity(input, wanted.model_hash);
  }
  const auto differences = calib::identity_differences(wanted, *cached);
  if (differences.empty()) {
    report_.tokens_used = cached->tokens;
    report_.window = cached->window;
    report_.sources = cached->sources;
    check_q2tp_floor(cache, cached->tokens);
    return;
  }
  const std::string text = fmt::format("{}: the Hessians belong to another run: {}",
                                       cache.path().string(), fmt::join(differences, "; "));
  if (!options_.hessians_force) {
    fail(ErrorKind::kRefused,
         "{}. Remove the file to capture anew, name another --hessians file, or use it all the "
         "same with "
         "--hessians-force",
         text);
  }
  add_warning(text);
}

void GptqRun::check_q2tp_floor(const calib::HessianCache& cache, std::int64_t rows) const {
  if (!asks_for_q2tp(options_.selection) || options_.allow_few_tokens ||
      rows + 1 >= kLeastQ2tpTokens)
    return;
  fail(ErrorKind::kRefused,
       "{}: was made from {} tokens and q2tp needs at least {}; capture more, or force it with "
       "--allow-few-tokens",
       cache.path().string(), rows, kLeastQ2tpTokens);
}

void GptqRun::check_missing() {
  if (plan_.ungrouped.empty()) return;
  std::string names;
  for (std::size_t i = 0; i < plan_.ungrouped.size() && i < 40; ++i) {
    names += (i == 0 ? "" : ", ") + source_->tensors()[plan_.ungrouped[i]].name;
  }
  const std::string text =
      fmt::format("{} candidates have no Hessian{}: {}{}", plan_.ungrouped.size(),
                  files_.serve_any() ? " in " + options_.hessians->string() : "", names,
                  plan_.ungrouped.size() > 40 ? ", …" : "");
  if (files_.serve_any() && !options_.allow_missing_hessians) {
    fail(ErrorKind::kRefused,
         "{}. Capture them again, or round these tensors with --allow-missing-hessians", text);
  }
  add_warning(text + "; they are rounded");
}

void GptqRun::log_plan() {
  std::size_t candidates = 0;
  for (const GroupPlan& group : plan_.groups) candidates += group.tensors.size();
  context_.log.info("plan: GPTQ ({}) of {} matrices that share {} inputs; {} without a Hessian",
                    report_.codec, candidates, plan_.groups.size(), plan_.ungrouped.size());
  const BitsPerWeight bits = bits_per_weight(plan_);
  report_.bits_per_weight = bits.all;
  report_.layer_bits_per_weight = bits.layers;
  for (const std::string& line : plan_lines(plan_, *source_)) context_.log.info("{}", line);
  for (const std::string& line : recipe_lines(options_)) context_.log.info("{}", line);
  const MemoryPlan& memory = plan_.memory;
  const auto mb = [](std::uint64_t bytes) { return static_cast<double>(bytes) / 1e6; };
  context_.log.info(
      "  memory: peak {:.0f} MB of a budget of {:.0f} MB; program {:.0f} MB, hidden states {:.0f} "
      "MB{}, layer weights and panels {:.0f} MB, Hessians of a layer {:.0f} MB{}, fold and sweep "
      "{:.0f} MB",
      mb(memory.peak), mb(memory.budget), mb(memory.base), mb(memory.hidden_states),
      memory.spill_hidden ? " (on disk)" : "", mb(memory.layer_weights), mb(memory.hessians),
      memory.hessian_limit > 0
          ? fmt::format(" (all but {:.0f} MB on disk)", mb(memory.hessian_limit))
          : "",
      mb(memory.solve));
  context_.log.info("  disk: {}", disk_text(disk_items()));
  for (const GroupPlan& group : plan_.groups) {
    if (input_ && input_->corpus.windows.tokens() < group.width) {
      add_warning(
          fmt::format("{} calibration tokens are fewer than the {} channels of the widest input: "
                      "the Hessians are "
                      "singular and only damping makes them usable; raise --tokens",
                      input_->corpus.windows.tokens(), group.width));
      break;
    }
  }
}

void GptqRun::add_warning(std::string text) {
  const std::lock_guard lock(warning_mutex_);
  // A continued run may meet what the interrupted one has said already.
  if (std::find(report_.warnings.begin(), report_.warnings.end(), text) != report_.warnings.end())
    return;
  if (journal_) journal_->warning(text);
  context_.log.write(LogLevel::kWarning, text);
  report_.warnings.push_back(std::move(text));
}

}  // namespace cortiq::pipeline
