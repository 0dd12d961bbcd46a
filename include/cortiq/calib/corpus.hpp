// corpus.hpp: calibration text -> token windows (calibration.md sections 1 and 2).
#pragma once

#include <cstdint>
#include <filesystem>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "cortiq/model/windows.hpp"
#include "cortiq/support/log.hpp"

namespace cortiq::calib {

/// PATH[=SHARE] or PATH,share=S. An empty path stands for the built-in corpus.
struct SourceSpec {
  std::filesystem::path path;
  double share = 1;
};
/// Throws Error{kUsage}.
[[nodiscard]] SourceSpec parse_source_spec(std::string_view text);

/// Splits `tokens` over shares; sums exactly to max(tokens, 2) (calibration.md section 2).
[[nodiscard]] std::vector<std::int64_t> split_budget(std::int64_t tokens, const std::vector<double>& shares);

struct CorpusOptions {
  std::int64_t tokens = 32768;
  std::int64_t window = 2048;
  model::TokenId bos = -1;  ///< put in front of each window when >= 0 (counts as one of its tokens)
};

/// What one source gave.
struct SourceReport {
  std::string file;               ///< base name, or "built-in"
  std::string sha256;             ///< of the whole file
  double share = 1;
  std::int64_t tokens_wanted = 0;
  std::int64_t tokens_used = 0;   ///< in windows
  std::int64_t tokens_dropped = 0;  ///< last window of one token
  std::int64_t lines_skipped = 0;   ///< .jsonl lines or .json items that hold no text
  std::vector<std::int64_t> skipped_line_numbers;  ///< the first 10
};

struct Corpus {
  model::Windows windows;
  std::vector<SourceReport> sources;
  std::int64_t tokens_wanted = 0;
};

/// Reads the sources in order. A source shorter than its budget is a warning with both numbers. No windows at all:
/// Error{kRefused}. Unreadable, empty or malformed files: Error{kIo} / Error{kInput} with file and line.
[[nodiscard]] Corpus load_corpus(const std::vector<SourceSpec>& sources, const CorpusOptions& options,
                                 const model::Tokenizer& tokenizer, Log& log);

/// Text that is compiled into the program.
[[nodiscard]] std::string_view builtin_corpus() noexcept;

}  // namespace cortiq::calib
