// pattern.hpp: what a tokenizer.json calls a pattern: {"String": …} or {"Regex": …}.
// The files are written for Oniguruma (Ruby syntax, Unicode). The expression is rewritten for PCRE2
// where the two read it differently (\s, \w, \u), and refused by name where there is no equal.
#pragma once

#include <cstddef>
#include <memory>
#include <optional>
#include <string>
#include <string_view>

#include "tokenizer/json_value.hpp"

namespace cortiq::model::tokenizer {

/// Work memory of the regex library; one per encode call, shared by all patterns of that call.
class PatternScratch {
 public:
  PatternScratch();
  ~PatternScratch();
  PatternScratch(const PatternScratch&) = delete;
  PatternScratch& operator=(const PatternScratch&) = delete;

 private:
  friend class Pattern;
  struct State;
  std::unique_ptr<State> state_;
};

struct Match {
  std::size_t begin;
  std::size_t end;
};

/// Immutable; may be shared by threads.
class Pattern {
 public:
  /// @param value  {"String": …}, {"Regex": …}
  [[nodiscard]] static Pattern parse(const JsonValue& value);
  /// @param place  file and path for messages. Throws Error{kUnsupported} where the expression
  /// cannot be used.
  [[nodiscard]] static Pattern regex(std::string_view expression, const std::string& place);
  [[nodiscard]] static Pattern literal(std::string text);
  ~Pattern();
  Pattern(Pattern&&) noexcept;
  Pattern& operator=(Pattern&&) noexcept;

  /// First match at or behind `from`. Throws Error{kUnsupported} when the expression needs too many
  /// steps.
  /// @param text  valid UTF-8; look-ahead and look-behind end at its borders
  [[nodiscard]] std::optional<Match> find(std::string_view text, std::size_t from,
                                          PatternScratch& scratch) const;

  /// Calls visit(Match) for the matches from left to right. An empty match right behind the last
  /// match is skipped.
  template <typename Visit>
  void for_each(std::string_view text, PatternScratch& scratch, Visit&& visit) const;

  [[nodiscard]] std::string copy_replaced(std::string_view text, std::string_view content,
                                          PatternScratch& scratch) const;

 private:
  struct Code;
  Pattern();
  std::string literal_;
  std::string place_;
  std::unique_ptr<const Code> code_;
};

/// The expression in PCRE2's syntax.
[[nodiscard]] std::string translate_expression(std::string_view expression,
                                               const std::string& place);

/// Bytes from `from` to the next character boundary behind it.
[[nodiscard]] std::size_t next_boundary(std::string_view text, std::size_t from);

template <typename Visit>
void Pattern::for_each(std::string_view text, PatternScratch& scratch, Visit&& visit) const {
  std::size_t from = 0;
  std::optional<std::size_t> last_end;
  while (from <= text.size()) {
    const std::optional<Match> match = find(text, from, scratch);
    if (!match) {
      return;
    }
    if (match->begin == match->end && last_end == match->end) {
      from = next_boundary(text, match->end);
      continue;
    }
    visit(*match);
    from = match->end;
    last_end = match->end;
  }
}

}  // namespace cortiq::model::tokenizer
