// Perplexity and KL divergence of models on a text.
#include "calibration_input.hpp"
#include "cortiq/pipeline/jobs.hpp"
#include "cortiq/pipeline/model_source.hpp"
#include "cortiq/support/file.hpp"

namespace cortiq::pipeline {
namespace {

constexpr std::int64_t kDefaultWindow = 256;

/// Tokens per context, BOS not counted.
std::int64_t window_of(const JudgeOptions& options, const model::Arch& arch, model::TokenId bos) {
  const std::int64_t positions = arch.max_positions - (bos >= 0 ? 1 : 0);
  if (positions < 2) {
    fail(ErrorKind::kRefused,
         "the model has only {} positions (max_position_embeddings){}, and nothing is predicted in windows below 2 "
         "tokens; correct config.json and convert again",
         arch.max_positions, bos >= 0 ? ", one of them for BOS" : "");
  }
  if (options.window == 0) return std::min(kDefaultWindow, positions);
  if (options.window < 2) fail(ErrorKind::kUsage, "--window {}: at least 2", options.window);
  if (options.window > positions) {
    fail(ErrorKind::kRefused,
         "--window {}: needs {} positions and the model has {} (max_position_embeddings); use less",
         options.window, options.window + arch.max_positions - positions, arch.max_positions);
  }
  return options.window;
}

void warn_of(const cmf::Source& source, Context& context) {
  for (const std::string& warning : source_warnings(source)) context.log.warn("{}", warning);
}

struct JudgedText {
  model::ScoredWindows scored;
  std::int64_t window = 0;
};

JudgedText windows_of(const cmf::Source& source, const model::Arch& arch,
                                const JudgeOptions& options) {
  const model::Tokenizer tokenizer = open_tokenizer(source);
  const model::TokenId bos = resolve_bos(options.bos, tokenizer, arch);
  const std::int64_t window = window_of(options, arch, bos);
  const std::int64_t stride = options.stride > 0 ? options.stride : window;
  if (stride > window)
    fail(ErrorKind::kUsage, "--stride {}: must not exceed the window of {} tokens", stride, window);
  std::vector<model::TokenId> ids = tokenizer.encode(read_text_file(options.text));
  if (options.tokens > 0 && static_cast<std::int64_t>(ids.size()) > options.tokens) {
    ids.resize(static_cast<std::size_t>(options.tokens));
  }
  JudgedText text{model::scored_windows(ids, window, stride, bos), window};
  if (text.scored.windows.count() == 0) {
    fail(ErrorKind::kRefused,
         "{}: has {} tokens, fewer than one window of {}; use a longer text or a smaller --window",
         options.text.string(), ids.size(), window);
  }
  return text;
}

std::function<void(std::int64_t, std::int64_t)> progress_of(Context& context, std::string phase) {
  return [&context, phase = std::move(phase)](std::int64_t done, std::int64_t total) {
    context.interrupt.check();
    context.log.progress(phase, done, total, "tokens");
  };
}

}  // namespace

void check_judge_text(const cmf::Source& source, const JudgeOptions& options) {
  (void)windows_of(source, model::read_arch(source), options);
}

model::Perplexity run_perplexity(const std::filesystem::path& path, const JudgeOptions& options,
                                 Context& context) {
  const auto source = open_source(path);
  warn_of(*source, context);
  const model::Forward forward(*source, context.pool);
  const JudgedText text = windows_of(*source, forward.arch(), options);
  model::Perplexity result = model::perplexity(forward, text.scored, progress_of(context, "perplexity"));
  result.window = text.window;
  return result;
}

model::Divergence run_divergence(const std::filesystem::path& base,
                                 const std::filesystem::path& test, const JudgeOptions& options,
                                 Context& context) {
  const auto base_source = open_source(base);
  const auto test_source = open_source(test);
  warn_of(*base_source, context);
  warn_of(*test_source, context);
  const model::Forward base_forward(*base_source, context.pool);
  const model::Forward test_forward(*test_source, context.pool);
  if (base_forward.arch().vocab != test_forward.arch().vocab) {
    fail(ErrorKind::kInput,
         "{} has {} tokens and {} has {}: models of different vocabularies cannot be compared; give two versions of one model",
         base.string(), base_forward.arch().vocab, test.string(), test_forward.arch().vocab);
  }
  if (tokenizer_identity(*base_source) != tokenizer_identity(*test_source)) {
    context.log.warn("{} and {} hold different tokenizers; the first one is used", base.string(),
                     test.string());
  }
  const JudgedText text = windows_of(*base_source, base_forward.arch(), options);
  model::Divergence result =
      model::divergence(base_forward, test_forward, text.scored, progress_of(context, "divergence"));
  result.window = text.window;
  return result;
}

}  // namespace cortiq::pipeline
