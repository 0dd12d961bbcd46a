#include "calibration_input.hpp"

#include <algorithm>
#include <memory>
#include <optional>
#include <span>

#include "cortiq/calib/sha256.hpp"

namespace cortiq::pipeline {
namespace {

constexpr std::int64_t kDefaultWindow = 2048;
constexpr std::int64_t kDefaultTokensQ4tp = 32768;
constexpr std::int64_t kDefaultTokensQ2tp = 131072;

/// Spelling of a token that the header names by its id.
std::string special_token(const cmf::Json& config, const char* key, model::TokenId fallback,
                          const model::Tokenizer& tokenizer) {
  model::TokenId id = fallback;
  const auto found = config.find(key);
  if (found != config.end() && found->is_number_integer()) id = found->get<model::TokenId>();
  if (found != config.end() && found->is_array() && !found->empty() &&
      found->front().is_number_integer())
    id = found->front().get<model::TokenId>();
  if (id < 0 || id >= tokenizer.size()) return {};
  return tokenizer.decode(std::span(&id, 1));
}

/// Parsed when the first conversation is met: a template that is not understood does not matter to
/// other texts.
class LazyChat {
 public:
  LazyChat(std::string source, std::string where, calib::ChatTokens tokens)
      : source_(std::move(source)), where_(std::move(where)), tokens_(std::move(tokens)) {}
  calib::ChatText render(std::string_view conversation) {
    if (!chat_) chat_.emplace(calib::ChatTemplate::parse(source_, where_));
    return chat_->render(conversation, tokens_);
  }

 private:
  std::string source_;
  std::string where_;
  calib::ChatTokens tokens_;
  std::optional<calib::ChatTemplate> chat_;
};

}  // namespace

model::Tokenizer open_tokenizer(const cmf::Source& source) {
  if (source.vocab().empty()) {
    if (const auto file = source.path() / "tokenizer.json"; std::filesystem::exists(file)) {
      fail(ErrorKind::kInput, "{}: is empty, so text cannot be turned into tokens; get it again", file.string());
    }
    fail(ErrorKind::kInput,
         "{}: holds no tokenizer (tokenizer.json), so text cannot be turned into tokens; put "
         "tokenizer.json into the model's folder, or convert the model again from a folder that "
         "has one",
         source.path().string());
  }
  return model::Tokenizer::parse(source.vocab(), source.path().string() + ": tokenizer.json");
}

std::string tokenizer_identity(const cmf::Source& source) {
  const ByteSpan vocab = source.vocab();
  return calib::sha256_hex({reinterpret_cast<const char*>(vocab.data()), vocab.size()});
}

model::TokenId resolve_bos(Bos bos, const model::Tokenizer& tokenizer, const model::Arch& arch) {
  if (bos == Bos::kOff) return -1;
  const model::TokenId token = tokenizer.bos();
  if (token >= 0) return token;
  // auto follows the tokenizer's own template; on falls back to the header's bos_token_id.
  if (bos == Bos::kAuto) return -1;
  if (arch.bos_token) return static_cast<model::TokenId>(*arch.bos_token);
  fail(ErrorKind::kUsage,
       "--bos on: neither the tokenizer nor the header names a BOS token; use --bos off");
}

calib::RenderChat chat_renderer(const cmf::Source& source, const model::Tokenizer& tokenizer) {
  const cmf::Json& header = source.header().json();
  const auto config = header.find("tokenizer_config");
  if (config == header.end() || !config->is_object()) return {};
  const auto text = config->find("chat_template");
  if (text == config->end() || !text->is_string()) return {};
  const calib::ChatTokens tokens{special_token(*config, "bos_token_id", tokenizer.bos(), tokenizer),
                                 special_token(*config, "eos_token_ids", -1, tokenizer)};
  const auto chat = std::make_shared<LazyChat>(
      text->get<std::string>(), source.path().string() + ": chat template", tokens);
  return [chat](std::string_view conversation) { return chat->render(conversation); };
}

ResolvedCalibration resolve_calibration(const CalibrationOptions& options, bool q2tp,
                                        bool allow_few_tokens, const model::Arch& arch) {
  ResolvedCalibration resolved;
  resolved.tokens =
      options.tokens > 0 ? options.tokens : (q2tp ? kDefaultTokensQ2tp : kDefaultTokensQ4tp);
  resolved.window =
      options.window > 0 ? options.window : std::min(kDefaultWindow, arch.max_positions);
  if (arch.max_positions < 2) {
    fail(ErrorKind::kRefused,
         "the model has only {} position (max_position_embeddings), and calibration needs windows of at least 2 "
         "tokens; correct config.json and convert again",
         arch.max_positions);
  }
  if (resolved.window > arch.max_positions) {
    fail(ErrorKind::kRefused,
         "--window {}: the model has only {} positions (max_position_embeddings); use at most that",
         resolved.window, arch.max_positions);
  }
  if (q2tp && resolved.tokens < kLeastQ2tpTokens && !allow_few_tokens) {
    fail(ErrorKind::kRefused,
         "--tokens {}: q2tp needs at least {} calibration tokens to be of use; raise --tokens, or "
         "force it "
         "with --allow-few-tokens",
         resolved.tokens, kLeastQ2tpTokens);
  }
  return resolved;
}

CalibrationInput load_calibration(const cmf::Source& source, const model::Arch& arch,
                                  const CalibrationOptions& options, bool q2tp,
                                  bool allow_few_tokens, Log& log) {
  CalibrationInput input;
  input.settings = resolve_calibration(options, q2tp, allow_few_tokens, arch);
  const model::Tokenizer tokenizer = open_tokenizer(source);
  input.tokenizer_hash = tokenizer_identity(source);
  std::vector<calib::SourceSpec> sources = options.sources;
  if (sources.empty()) {
    log.info("no --calib given: calibrating on the built-in English corpus");
    sources.emplace_back();
  }
  calib::CorpusOptions corpus_options;
  corpus_options.tokens = input.settings.tokens;
  corpus_options.window = input.settings.window;
  corpus_options.bos = resolve_bos(options.bos, tokenizer, arch);
  corpus_options.vocab = arch.vocab;
  corpus_options.tokenizer = {tokenizer.size(), input.tokenizer_hash};
  corpus_options.chat = chat_renderer(source, tokenizer);
  corpus_options.verify_teacher = options.verify_teacher;
  input.bos = corpus_options.bos >= 0;
  input.corpus = calib::load_corpus(sources, corpus_options, tokenizer, log);
  const std::int64_t used = input.corpus.windows.tokens();
  // A corpus may miss the floor by its last, dropped window of one token.
  if (q2tp && used + 1 < kLeastQ2tpTokens && !allow_few_tokens) {
    fail(ErrorKind::kRefused,
         "the calibration text gives only {} tokens and q2tp needs at least {}; add text with "
         "--calib, or "
         "force it with --allow-few-tokens",
         used, kLeastQ2tpTokens);
  }
  return input;
}

calib::CacheIdentity cache_identity(const CalibrationInput& input, const std::string& model_hash) {
  calib::CacheIdentity identity;
  identity.model_hash = model_hash;
  identity.tokenizer_hash = input.tokenizer_hash;
  identity.sources = input.corpus.sources;
  identity.tokens = input.corpus.windows.tokens();
  identity.window = input.settings.window;
  identity.bos = input.bos;
  return identity;
}

void log_sources(const CalibrationInput& input, Log& log) {
  for (const calib::SourceReport& source : input.corpus.sources) {
    log.info("calibration source {}: share {:g}, {} tokens wanted, {} used{}{}", source.file,
             source.share, source.tokens_wanted, source.tokens_used,
             source.tokens_dropped > 0 ? fmt::format(", {} dropped", source.tokens_dropped) : "",
             source.lines_skipped > 0
                 ? fmt::format(", {} lines without text skipped", source.lines_skipped)
                 : "");
  }
  log.info("calibration: {} tokens in {} windows of at most {}{}", input.corpus.windows.tokens(),
           input.corpus.windows.count(), input.settings.window,
           input.bos ? ", BOS in front of each" : "");
}

}  // namespace cortiq::pipeline
