#include "cortiq/calib/corpus.hpp"

#include <algorithm>

#include "cortiq/calib/sha256.hpp"
#include "cortiq/calib/teacher.hpp"
#include "cortiq/support/error.hpp"

namespace cortiq::calib {
namespace {

std::string display_name(const SourceSpec& source) {
  return source.path.empty() ? "built-in calibration text" : source.path.string();
}

/// Text tokens that make `tokens` positions when each window spends one on the begin-of-sequence
/// token.
std::int64_t text_tokens(std::int64_t tokens, std::int64_t window, bool bos) {
  return bos ? tokens - (tokens + window - 1) / window : tokens;
}

std::string join_numbers(const Findings& findings) {
  std::string joined;
  for (const std::int64_t number : findings.numbers) {
    joined += fmt::format("{}{}", joined.empty() ? "" : ", ", number);
  }
  return findings.count > static_cast<std::int64_t>(findings.numbers.size()) ? joined + ", ..."
                                                                             : joined;
}

/// Cuts ids into windows; a window of one token is dropped.
void add_windows(const std::vector<model::TokenId>& ids, std::int64_t window, model::TokenId bos,
                 SourceReport& report, model::Windows& windows) {
  const auto payload = static_cast<std::size_t>(bos >= 0 ? window - 1 : window);
  std::vector<model::TokenId> piece;
  for (std::size_t begin = 0; begin < ids.size(); begin += payload) {
    piece.clear();
    if (bos >= 0) piece.push_back(bos);
    const std::size_t end = std::min(ids.size(), begin + payload);
    piece.insert(piece.end(), ids.begin() + static_cast<std::ptrdiff_t>(begin),
                 ids.begin() + static_cast<std::ptrdiff_t>(end));
    if (piece.size() < 2) {
      report.tokens_dropped += static_cast<std::int64_t>(piece.size());
      continue;
    }
    windows.add(piece);
    report.tokens_used += static_cast<std::int64_t>(piece.size());
  }
}

void log_findings(const std::string& name, TextKind kind, const Text& text, Log& log) {
  if (text.skipped.count > 0) {
    const bool json = kind == TextKind::kJson;
    log.warn("{}: {} {} hold no text and were skipped ({}): {}", name, text.skipped.count,
             json ? "items" : "lines",
             json ? "neither a string nor an array with strings"
                  : "no JSON string, no object with a string \"text\", no messages",
             join_numbers(text.skipped));
  }
  if (text.refused.count > 0) {
    log.warn("{}: the chat template does not take {} conversations, which were skipped ({}): lines {}",
             name, text.refused.count, text.refusal, join_numbers(text.refused));
  }
  if (text.invalid.count > 0) {
    log.warn("{}: {} sequences are not UTF-8 and were read as U+FFFD: lines {}", name,
             text.invalid.count, join_numbers(text.invalid));
  }
}

/// What does not depend on the kind of a source.
SourceReport new_report(const SourceSpec& source, std::int64_t budget) {
  SourceReport report;
  report.file = source.path.empty() ? "built-in" : source.path.filename().string();
  report.share = source.share;
  report.tokens_wanted = budget;
  return report;
}

/// Teacher data come as tokens, cut at the ends of their records.
SourceReport read_teacher_source(const SourceSpec& source, std::int64_t budget,
                                 const CorpusOptions& options, model::Windows& windows, Log& log) {
  const TeacherSelector selector = parse_teacher_selector(source.path.string());
  if (options.bos >= 0) {
    log.warn("{}: the windows of teacher data begin as its records do; no BOS is put in front",
             source.path.string());
  }
  const TeacherWindows read = read_teacher(selector,
                                           {.tokens = budget,
                                            .window = options.window,
                                            .vocab = options.vocab,
                                            .tokenizer = options.tokenizer,
                                            .verify = options.verify_teacher},
                                           log);
  SourceReport report = new_report(source, budget);
  report.tokens_used = read.windows.tokens();
  report.sha256 = read.sha256;
  for (std::int64_t i = 0; i < read.windows.count(); ++i) windows.add(read.windows.window(i));
  return report;
}

SourceReport read_text_source(const SourceSpec& source, std::int64_t budget,
                              const CorpusOptions& options, const Encode& encode,
                              model::Windows& windows, Log& log) {
  const std::string name = display_name(source);
  const bool builtin = source.path.empty();
  const std::int64_t want = text_tokens(budget, options.window, options.bos >= 0);
  SourceReport report = new_report(source, budget);
  SourceTokens read = builtin ? read_tokens(builtin_corpus(), want, encode)
                              : read_tokens(source.path, want, encode, options.chat);
  report.sha256 = builtin ? sha256_hex(builtin_corpus()) : sha256_file(source.path);
  report.lines_skipped = read.text.skipped.count;
  report.conversations_refused = read.text.refused.count;
  report.skipped_line_numbers = read.text.skipped.numbers;
  report.blank_lines = read.text.blank_lines;
  report.invalid_sequences = read.text.invalid.count;
  report.invalid_line_numbers = read.text.invalid.numbers;
  log_findings(name, text_kind(source.path), read.text, log);
  if (want > 0 && read.text.text.empty()) {
    fail(ErrorKind::kInput,
         "{}: holds no text ({} lines or items without text); give a file with text", name,
         report.lines_skipped + report.blank_lines + report.conversations_refused);
  }
  add_windows(read.ids, options.window, options.bos, report, windows);
  return report;
}

SourceReport read_source(const SourceSpec& source, std::int64_t budget,
                         const CorpusOptions& options, const Encode& encode,
                         model::Windows& windows, Log& log) {
  if (!source.note.empty()) log.warn("{}", source.note);
  const SourceReport report =
      source.is_teacher_data()
          ? read_teacher_source(source, budget, options, windows, log)
          : read_text_source(source, budget, options, encode, windows, log);
  if (report.tokens_used < budget) {
    log.warn("{}: gave {} calibration tokens of the {} wanted{}", display_name(source),
             report.tokens_used, budget,
             report.tokens_dropped > 0 ? " (a last window of one token is dropped)" : "");
  }
  return report;
}

}  // namespace

Corpus load_corpus(const std::vector<SourceSpec>& sources, const CorpusOptions& options,
                   const Encode& encode, Log& log) {
  check_sources(sources);
  CorpusOptions bounded = options;
  bounded.window = std::max<std::int64_t>(options.window, 2);
  Corpus corpus;
  corpus.tokens_wanted = std::max<std::int64_t>(options.tokens, 2);
  std::vector<double> shares;
  for (const SourceSpec& source : sources) shares.push_back(source.share);
  const std::vector<std::int64_t> budgets = split_budget(corpus.tokens_wanted, shares);
  for (std::size_t i = 0; i < sources.size(); ++i) {
    corpus.sources.push_back(
        read_source(sources[i], budgets[i], bounded, encode, corpus.windows, log));
  }
  if (corpus.windows.count() == 0) {
    fail(ErrorKind::kRefused,
         "calibration: too few tokens: {} wanted, but the text gives no window of at least 2; give "
         "more text",
         corpus.tokens_wanted);
  }
  return corpus;
}

}  // namespace cortiq::calib
