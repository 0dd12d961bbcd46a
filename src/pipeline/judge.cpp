// Perplexity and KL divergence of models on a text.
#include "calibration_input.hpp"
#include "cortiq/pipeline/jobs.hpp"
#include "cortiq/pipeline/model_source.hpp"
#include "cortiq/support/file.hpp"

namespace cortiq::pipeline {
namespace {

model::ScoredWindows windows_of(const cmf::Source& source, const model::Arch& arch,
                                const JudgeOptions& options) {
  const model::Tokenizer tokenizer = open_tokenizer(source);
  const model::TokenId bos = resolve_bos(options.bos, tokenizer, arch);
  const std::int64_t positions = options.window + (bos >= 0 ? 1 : 0);
  if (options.window < 2) fail(ErrorKind::kUsage, "--window {}: at least 2", options.window);
  if (positions > arch.max_positions) {
    fail(ErrorKind::kRefused,
         "--window {}: needs {} positions and the model has {} (max_position_embeddings); use less",
         options.window, positions, arch.max_positions);
  }
  const std::int64_t stride = options.stride > 0 ? options.stride : options.window;
  if (stride > options.window)
    fail(ErrorKind::kUsage, "--stride {}: must not exceed --window {}", stride, options.window);
  std::vector<model::TokenId> ids = tokenizer.encode(read_text_file(options.text));
  if (options.tokens > 0 && static_cast<std::int64_t>(ids.size()) > options.tokens) {
    ids.resize(static_cast<std::size_t>(options.tokens));
  }
  model::ScoredWindows scored = model::scored_windows(ids, options.window, stride, bos);
  if (scored.windows.count() == 0) {
    fail(ErrorKind::kRefused,
         "{}: has {} tokens, fewer than one window of {}; use a longer text or a smaller --window",
         options.text.string(), ids.size(), options.window);
  }
  return scored;
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
  const model::Forward forward(*source, context.pool);
  const model::ScoredWindows windows = windows_of(*source, forward.arch(), options);
  return model::perplexity(forward, windows, progress_of(context, "perplexity"));
}

model::Divergence run_divergence(const std::filesystem::path& base,
                                 const std::filesystem::path& test, const JudgeOptions& options,
                                 Context& context) {
  const auto base_source = open_source(base);
  const auto test_source = open_source(test);
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
  const model::ScoredWindows windows = windows_of(*base_source, base_forward.arch(), options);
  return model::divergence(base_forward, test_forward, windows, progress_of(context, "divergence"));
}

}  // namespace cortiq::pipeline
