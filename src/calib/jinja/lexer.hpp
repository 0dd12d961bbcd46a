// lexer.hpp: template text -> text pieces and the tokens inside {{ }} and {% %}, with the white
// space rules that chat templates are written for: trim_blocks and lstrip_blocks on, '-' and '+' at
// the delimiters, the last newline of the template dropped.
#pragma once

#include <cstdint>
#include <string>
#include <string_view>
#include <vector>

namespace cortiq::calib::jinja {

enum class TokenKind {
  kText,      ///< between the delimiters, as it is printed
  kOutBegin,  ///< {{
  kOutEnd,
  kTagBegin,  ///< {%
  kTagEnd,
  kName,
  kString,  ///< text holds the value, escapes resolved
  kInteger,
  kFloat,
  kOperator,
  kEnd,
};
struct Token {
  TokenKind kind = TokenKind::kEnd;
  std::string text;
  std::int64_t line = 1;
};

/// Throws Error{kInput} with the line of what cannot be read. @param where  for messages
[[nodiscard]] std::vector<Token> tokenize(std::string_view source, std::string_view where);

}  // namespace cortiq::calib::jinja
