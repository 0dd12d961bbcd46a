#include "lexer.hpp"

#include <algorithm>
#include <array>
#include <cctype>

#include "cortiq/support/error.hpp"

namespace cortiq::calib::jinja {
namespace {

constexpr std::string_view kSpace = " \t\n\r\v\f";
constexpr std::array<std::string_view, 6> kTwoCharacters{"==", "!=", "<=", ">=", "//", "**"};
constexpr std::string_view kOneCharacter = "()[]{}.,:|~+-*/%<>=";

bool is_name_start(char c) { return std::isalpha(static_cast<unsigned char>(c)) != 0 || c == '_'; }
bool is_digit(char c) { return c >= '0' && c <= '9'; }
bool is_name_part(char c) { return is_name_start(c) || is_digit(c); }

std::string normalized(std::string_view source) {
  std::string text;
  for (std::size_t i = 0; i < source.size(); ++i) {
    if (source[i] != '\r') {
      text += source[i];
    } else if (i + 1 >= source.size() || source[i + 1] != '\n') {
      text += '\n';
    }
  }
  if (text.ends_with('\n')) text.pop_back();
  return text;
}

class Lexer {
 public:
  Lexer(std::string_view source, std::string_view where)
      : source_(normalized(source)), where_(where) {}

  std::vector<Token> run() {
    while (at_ < source_.size()) {
      const std::size_t open = find_open(at_);
      add_text(open);
      if (open == std::string::npos) break;
      at_ = open;
      read_delimited();
    }
    add(TokenKind::kEnd, "");
    return std::move(tokens_);
  }

 private:
  [[nodiscard]] std::int64_t line(std::size_t position) const {
    return 1 + std::count(source_.begin(),
                          source_.begin() + static_cast<std::ptrdiff_t>(position), '\n');
  }
  [[noreturn]] void fail_at(std::size_t position, std::string_view what) const {
    fail(ErrorKind::kInput, "{}: line {}: {}", where_, line(position), what);
  }
  void add(TokenKind kind, std::string text) {
    const std::size_t here = std::min(at_, source_.size());
    line_ += std::count(source_.begin() + static_cast<std::ptrdiff_t>(counted_),
                        source_.begin() + static_cast<std::ptrdiff_t>(here), '\n');
    counted_ = here;
    tokens_.push_back({kind, std::move(text), line_});
  }
  [[nodiscard]] std::size_t find_open(std::size_t from) const {
    for (std::size_t i = source_.find('{', from); i != std::string::npos;
         i = source_.find('{', i + 1)) {
      if (i + 1 < source_.size() && std::string_view("{%#").find(source_[i + 1]) != std::string::npos)
        return i;
    }
    return std::string::npos;
  }
  /// The text up to the next delimiter, shortened as that asks for.
  void add_text(std::size_t open) {
    const std::size_t end = std::min(open, source_.size());
    std::string_view text = std::string_view(source_).substr(at_, end - at_);
    if (open != std::string::npos) {
      const char mark = open + 2 < source_.size() ? source_[open + 2] : ' ';
      if (mark == '-') {
        text = text.substr(0, text.find_last_not_of(kSpace) + 1);
      } else if (mark != '+' && source_[open + 1] != '{') {
        text = without_indentation(text);
      }
    }
    if (!text.empty()) add(TokenKind::kText, std::string(text));
  }
  /// lstrip_blocks: blanks between the beginning of a line and a tag.
  [[nodiscard]] std::string_view without_indentation(std::string_view text) const {
    const std::size_t newline = text.rfind('\n');
    const bool starts_line = at_ == 0 || source_[at_ - 1] == '\n';
    if (newline == std::string_view::npos && !starts_line) return text;
    const std::size_t begin = newline == std::string_view::npos ? 0 : newline + 1;
    return text.find_first_not_of(kSpace, begin) == std::string_view::npos ? text.substr(0, begin)
                                                                          : text;
  }
  void read_delimited() {
    const char kind = source_[at_ + 1];
    if (kind == '#') {
      const std::size_t end = source_.find("#}", at_ + 2);
      if (end == std::string::npos) fail_at(at_, "a comment {# is not closed");
      leave(end, source_[end - 1] == '-' && end > at_ + 2, true);
      return;
    }
    const bool tag = kind == '%';
    const std::size_t begin = at_;
    add(tag ? TokenKind::kTagBegin : TokenKind::kOutBegin, "");
    at_ += 2;
    if (at_ < source_.size() && (source_[at_] == '-' || source_[at_] == '+')) ++at_;
    read_tokens(begin, tag);
    if (tag && ends_in_raw()) read_raw();
  }
  [[nodiscard]] bool ends_in_raw() const {
    const std::size_t n = tokens_.size();
    return n >= 3 && tokens_[n - 3].kind == TokenKind::kTagBegin && tokens_[n - 2].text == "raw";
  }
  void read_raw();
  void read_tokens(std::size_t begin, bool tag);
  void read_string();
  void read_number();
  void read_operator();
  /// Behind the closing delimiter of two characters at `end`.
  void leave(std::size_t end, bool strip, bool trim) {
    const bool keep = source_[end - 1] == '+';
    at_ = end + 2;
    if (strip) {
      at_ = std::min(source_.find_first_not_of(kSpace, at_), source_.size());
    } else if (trim && !keep && at_ < source_.size() && source_[at_] == '\n') {
      ++at_;
    }
  }

  std::string source_;
  std::string_view where_;
  std::size_t at_ = 0;
  std::size_t counted_ = 0;  // lines before this place are in line_
  std::int64_t line_ = 1;
  std::vector<Token> tokens_;
};

/// Everything up to {% endraw %} is text.
void Lexer::read_raw() {
  tokens_.resize(tokens_.size() - 3);
  for (std::size_t open = source_.find("{%", at_); open != std::string::npos;
       open = source_.find("{%", open + 2)) {
    std::size_t name = open + 2;
    if (name < source_.size() && (source_[name] == '-' || source_[name] == '+')) ++name;
    name = std::min(source_.find_first_not_of(kSpace, name), source_.size());
    if (source_.compare(name, 6, "endraw") != 0) continue;
    const std::size_t close = source_.find("%}", name);
    if (close == std::string::npos) break;
    add_text(open);
    leave(close, source_[close - 1] == '-', true);
    return;
  }
  fail_at(at_, "{% raw %} is not closed");
}

void Lexer::read_tokens(std::size_t begin, bool tag) {
  const std::string_view close = tag ? "%}" : "}}";
  std::int64_t braces = 0;  // of dict literals
  while (true) {
    at_ = source_.find_first_not_of(kSpace, at_);
    if (at_ == std::string::npos) fail_at(begin, "a tag is not closed");
    const char c = source_[at_];
    const bool marked = (c == '-' || c == '+') && source_.compare(at_ + 1, 2, close) == 0;
    if (marked || (braces == 0 && source_.compare(at_, 2, close) == 0)) {
      add(tag ? TokenKind::kTagEnd : TokenKind::kOutEnd, "");
      leave(at_ + (marked ? 1 : 0), c == '-', tag);
      return;
    }
    if (c == '{') ++braces;
    if (c == '}') --braces;
    if (c == '\'' || c == '"') {
      read_string();
    } else if (is_digit(c)) {
      read_number();
    } else if (is_name_start(c)) {
      std::size_t end = at_;
      while (end < source_.size() && is_name_part(source_[end])) ++end;
      add(TokenKind::kName, source_.substr(at_, end - at_));
      at_ = end;
    } else {
      read_operator();
    }
  }
}

void Lexer::read_string() {
  const std::size_t begin = at_;
  const char quote = source_[at_];
  std::string value;
  for (std::size_t i = at_ + 1; i < source_.size(); ++i) {
    if (source_[i] == quote) {
      add(TokenKind::kString, std::move(value));
      at_ = i + 1;
      return;
    }
    if (source_[i] != '\\' || i + 1 >= source_.size()) {
      value += source_[i];
      continue;
    }
    constexpr std::string_view kEscapes = "nrt\\'\"";
    constexpr std::string_view kMeanings = "\n\r\t\\'\"";
    const std::size_t escape = kEscapes.find(source_[++i]);
    if (escape == std::string_view::npos) {
      value += '\\';  // as Python keeps it
      value += source_[i];
    } else {
      value += kMeanings[escape];
    }
  }
  fail_at(begin, "a string is not closed");
}

void Lexer::read_number() {
  std::size_t end = at_;
  while (end < source_.size() && is_digit(source_[end])) ++end;
  const bool real =
      end + 1 < source_.size() && source_[end] == '.' && is_digit(source_[end + 1]);
  if (real) {
    ++end;
    while (end < source_.size() && is_digit(source_[end])) ++end;
  }
  constexpr std::size_t kMostDigits = 18;
  if (end - at_ > kMostDigits) fail_at(at_, "a number has too many digits");
  add(real ? TokenKind::kFloat : TokenKind::kInteger, source_.substr(at_, end - at_));
  at_ = end;
}

void Lexer::read_operator() {
  const std::string two = source_.substr(at_, 2);
  const bool is_two =
      std::find(kTwoCharacters.begin(), kTwoCharacters.end(), two) != kTwoCharacters.end();
  if (!is_two && kOneCharacter.find(source_[at_]) == std::string_view::npos)
    fail_at(at_, fmt::format("'{}' has no meaning here", source_[at_]));
  add(TokenKind::kOperator, is_two ? two : source_.substr(at_, 1));
  at_ += is_two ? 2 : 1;
}

}  // namespace

std::vector<Token> tokenize(std::string_view source, std::string_view where) {
  return Lexer(source, where).run();
}

}  // namespace cortiq::calib::jinja
