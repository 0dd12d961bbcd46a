// calibration_input.hpp: from options to token windows: tokenizer, defaults, guards.
#pragma once

#include <memory>
#include <string>

#include "cortiq/calib/corpus.hpp"
#include "cortiq/calib/hessian_cache.hpp"
#include "cortiq/model/forward.hpp"
#include "cortiq/pipeline/context.hpp"
#include "cortiq/pipeline/options.hpp"

namespace cortiq::pipeline {

/// Tokenizer of a source; Error{kInput} if it has none.
[[nodiscard]] model::Tokenizer open_tokenizer(const cmf::Source& source);
/// sha256 of its tokenizer.json.
[[nodiscard]] std::string tokenizer_identity(const cmf::Source& source);
/// Token put in front of windows, -1 for none. kOn without a BOS token is Error{kUsage}.
[[nodiscard]] model::TokenId resolve_bos(Bos bos, const model::Tokenizer& tokenizer,
                                         const model::Arch& arch);

/// Renders conversations with the chat template of the header; empty if it has none. Special tokens
/// are those whose ids the header names.
[[nodiscard]] calib::RenderChat chat_renderer(const cmf::Source& source,
                                              const model::Tokenizer& tokenizer);

struct ResolvedCalibration {
  std::int64_t tokens = 0;
  std::int64_t window = 0;
};
/// Defaults of the codec; Error{kRefused} for a window beyond the model's positions or too few
/// tokens for q2tp.
[[nodiscard]] ResolvedCalibration resolve_calibration(const CalibrationOptions& options, bool q2tp,
                                                      bool allow_few_tokens,
                                                      const model::Arch& arch);

struct CalibrationInput {
  calib::Corpus corpus;
  ResolvedCalibration settings;
  bool bos = false;
  std::string tokenizer_hash;
};
[[nodiscard]] CalibrationInput load_calibration(const cmf::Source& source, const model::Arch& arch,
                                                const CalibrationOptions& options, bool q2tp,
                                                bool allow_few_tokens, Log& log);

/// Identity of the Hessians that this input gives with this model.
[[nodiscard]] calib::CacheIdentity cache_identity(const CalibrationInput& input,
                                                  const std::string& model_hash);

/// Lines with wanted and used tokens per source.
void log_sources(const CalibrationInput& input, Log& log);

}  // namespace cortiq::pipeline
