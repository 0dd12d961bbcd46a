// expression.cpp: Oniguruma's syntax (as the tokenizers library compiles it) rewritten for PCRE2.
#include <algorithm>

#include "tokenizer/pattern.hpp"

namespace cortiq::model::tokenizer {
namespace {

// Oniguruma's \s is White_Space. PCRE2's also takes U+180E, which has lost that property in
// Unicode 6.3.
constexpr std::string_view kSpaceItems =
    R"(\x09-\x0d\x20\x85\xa0\x{1680}\x{2000}-\x{200a}\x{2028}\x{2029}\x{202f}\x{205f}\x{3000})";
// Oniguruma's \w; PCRE2's is [\p{L}\p{N}_].
constexpr std::string_view kWordItems = R"(\p{Alphabetic}\p{M}\p{Nd}\p{Pc})";
// Escapes that mean something else in PCRE2, or exist in one of the two only.
constexpr std::string_view kRefusedEscapes = "hHRXKQECGNOyYgk";

bool is_hex(char c) {
  return (c >= '0' && c <= '9') || (c >= 'a' && c <= 'f') || (c >= 'A' && c <= 'F');
}

class Translator {
 public:
  Translator(std::string_view source, const std::string& place) : source_(source), place_(place) {}

  std::string run() {
    while (at_ < source_.size()) {
      const char c = source_[at_];
      if (c == '\\') {
        escape();
      } else if (in_class_) {
        class_item(c);
      } else {
        outside(c);
      }
    }
    return std::move(out_);
  }

 private:
  [[noreturn]] void refuse(std::string_view construct) const {
    fail(ErrorKind::kUnsupported, "{}: '{}' in the expression '{}' is not supported", place_,
         construct, source_);
  }
  [[nodiscard]] char peek(std::size_t ahead) const {
    return at_ + ahead < source_.size() ? source_[at_ + ahead] : '\0';
  }
  void copy(std::size_t count) {
    count = std::min(count, source_.size() - at_);
    out_.append(source_.substr(at_, count));
    at_ += count;
  }
  void replace(std::size_t count, std::string_view text) {
    out_.append(text);
    at_ += count;
  }

  void escape() {
    const char c = peek(1);
    if (kRefusedEscapes.find(c) != std::string_view::npos && c != '\0') {
      refuse(source_.substr(at_, 2));
    }
    switch (c) {
      case 's':
        return replace(2, in_class_ ? std::string(kSpaceItems) : fmt::format("[{}]", kSpaceItems));
      case 'S':
        return replace(2, in_class_ ? R"(\P{White_Space})" : fmt::format("[^{}]", kSpaceItems));
      case 'w':
        return replace(2, in_class_ ? std::string(kWordItems) : fmt::format("[{}]", kWordItems));
      case 'W':
        if (in_class_) {
          refuse(R"(\W in a class)");
        }
        return replace(2, fmt::format("[^{}]", kWordItems));
      case 'u':
        return code_unit();
      case 'p':
      case 'P':
      case 'x':
        return copy(peek(2) == '{' ? braced_size(2) : 2);
      default:
        return copy(2);
    }
  }

  // \uHHHH is \x{HHHH}.
  void code_unit() {
    for (std::size_t i = 2; i < 6; ++i) {
      if (!is_hex(peek(i))) {
        refuse(R"(\u)");
      }
    }
    replace(6, fmt::format("\\x{{{}}}", source_.substr(at_ + 2, 4)));
  }

  [[nodiscard]] std::size_t braced_size(std::size_t open) const {
    const std::size_t close = source_.find('}', at_ + open);
    return close == std::string_view::npos ? source_.size() - at_ : close + 1 - at_;
  }

  void class_item(char c) {
    if (c == '[' && peek(1) != ':') {
      refuse("a class inside a class");
    }
    if (c == '&' && peek(1) == '&') {
      refuse("&&");
    }
    if (c == '[') {
      const std::size_t close = source_.find(":]", at_ + 2);
      if (close == std::string_view::npos) {
        refuse("[:");
      }
      return copy(close + 2 - at_);
    }
    in_class_ = c != ']';
    copy(1);
  }

  void outside(char c) {
    if (c == '[') {
      in_class_ = true;
      copy(peek(1) == '^' ? 2 : 1);
      if (peek(0) == ']') {  // a bracket in first place is itself
        replace(1, R"(\])");
      }
      return;
    }
    // Ruby reads {n,m}+ as a repeated repeat, PCRE2 as a possessive one.
    if (c == '}' && peek(1) == '+') {
      refuse("}+");
    }
    if (c == '(') {
      group();
    }
    copy(1);
  }

  void group() const {
    if (peek(1) == '*') {
      refuse("(*");
    }
    if (peek(1) != '?') {
      return;
    }
    // In Ruby (?m) lets the dot match a newline; there is no (?s).
    for (std::size_t i = 2; std::string_view("imsx-").find(peek(i)) != std::string_view::npos;
         ++i) {
      if (peek(i) == '\0') {
        return;
      }
      if (peek(i) == 'm' || peek(i) == 's') {
        refuse("(?m) or (?s)");
      }
    }
  }

  std::string_view source_;
  const std::string& place_;
  std::size_t at_ = 0;
  bool in_class_ = false;
  std::string out_;
};

}  // namespace

std::string translate_expression(std::string_view expression, const std::string& place) {
  return Translator(expression, place).run();
}

}  // namespace cortiq::model::tokenizer
