// corpus.hpp: calibration text -> token windows (calibration.md sections 1 and 2).
// Sources are read in order; their windows follow each other, and a window never spans two sources.
// Files are streamed: only the text that the token budget needs is held (text.hpp). Same result for
// every Pool size: no threads are used.
#pragma once

#include <cstdint>
#include <filesystem>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "cortiq/calib/teacher.hpp"
#include "cortiq/calib/text.hpp"
#include "cortiq/model/windows.hpp"
#include "cortiq/support/log.hpp"

namespace cortiq::calib {

/// PATH[=SHARE] or PATH,share=S; PATH may be a selector of teacher data (teacher.hpp). An empty path stands for the built-in corpus.
struct SourceSpec {
  std::filesystem::path path;
  double share = 1;
  std::string note;  ///< a reading of the text that the user should hear about; empty as a rule
  [[nodiscard]] bool is_teacher_data() const;
};
/// The text splits at its last '=' if a number follows; PATH,share=S is never ambiguous. Exception:
/// a text that as a whole is the name of an existing file, while the part before the '=' is not, is
/// that file (with a note). Throws Error{kUsage}: empty path, share not finite and positive,
/// ",share=" without a number.
[[nodiscard]] SourceSpec parse_source_spec(std::string_view text);

/// Error{kUsage} if the shares of all sources overflow together. Notes a share that has no effect
/// because there is no other source.
void check_shares(std::vector<SourceSpec>& sources);

/// Splits `tokens` over shares in order; sums exactly to `tokens` (calibration.md section 2;
/// load_corpus asks for max(tokens, 2)). Empty for no shares.
[[nodiscard]] std::vector<std::int64_t> split_budget(std::int64_t tokens,
                                                     const std::vector<double>& shares);

/// Opens each file (the built-in corpus has none) and refuses what cannot work, before any long
/// task: missing or unreadable (kIo), empty or not a regular file (kInput), a wrong selector of
/// teacher data (kUsage).
void check_sources(const std::vector<SourceSpec>& sources);

struct CorpusOptions {
  std::int64_t tokens = 32768;
  std::int64_t window = 2048;
  model::TokenId bos = -1;  ///< put in front of each window when >= 0 (counts as one of its tokens;
                            ///< not with teacher data, whose tokens are complete)
  std::int64_t vocab = 0;   ///< bound of the ids of teacher data; 0 = not checked
  TokenizerFacts tokenizer = {};  ///< see TeacherOptions
  bool verify_teacher = true;  ///< see TeacherOptions::verify
  RenderChat chat = {};        ///< of the model's chat template; empty if it has none
};

/// What one source gave.
struct SourceReport {
  std::string file;    ///< base name, or "built-in"
  std::string sha256;  ///< of the whole file; teacher data: of the token ids used
  double share = 1;
  std::int64_t tokens_wanted = 0;
  std::int64_t tokens_used = 0;     ///< in windows
  std::int64_t tokens_dropped = 0;  ///< last window of one token
  std::int64_t lines_skipped = 0;   ///< .jsonl lines or .json items that hold no text
  std::int64_t conversations_refused = 0;  ///< by the chat template
  std::vector<std::int64_t> skipped_line_numbers;  ///< the first 10
  std::int64_t blank_lines = 0;                    ///< .jsonl lines of white space only
  std::int64_t invalid_sequences = 0;              ///< of UTF-8 in plain text, each read as U+FFFD
  std::vector<std::int64_t> invalid_line_numbers;  ///< the first 10
};

struct Corpus {
  model::Windows windows;
  std::vector<SourceReport> sources;
  std::int64_t tokens_wanted = 0;
};

/// Reads the sources in order. A source shorter than its budget, skipped lines and invalid UTF-8
/// are warnings with their numbers. No windows at all: Error{kRefused}. Unreadable, empty or
/// malformed files: Error{kIo} / Error{kInput} with file and line.
[[nodiscard]] Corpus load_corpus(const std::vector<SourceSpec>& sources,
                                 const CorpusOptions& options, const Encode& encode, Log& log);
[[nodiscard]] inline Corpus load_corpus(const std::vector<SourceSpec>& sources,
                                        const CorpusOptions& options,
                                        const model::Tokenizer& tokenizer, Log& log) {
  return load_corpus(
      sources, options, [&tokenizer](std::string_view text) { return tokenizer.encode(text); },
      log);
}

/// Text that is compiled into the program (data/calibration.txt).
[[nodiscard]] std::string_view builtin_corpus() noexcept;

}  // namespace cortiq::calib
