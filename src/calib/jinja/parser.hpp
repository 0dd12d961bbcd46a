// parser.hpp: tokens -> tree. What this interpreter does not know (a tag, a filter, a test) is an
// Error{kUnsupported} that names it and its line.
#pragma once

#include <cstdint>
#include <string>
#include <string_view>
#include <vector>

#include "expression.hpp"
#include "lexer.hpp"

namespace cortiq::calib::jinja {

/// The tokens and the place in them.
class Cursor {
 public:
  Cursor(std::vector<Token> tokens, std::string_view where)
      : tokens_(std::move(tokens)), where_(where) {}

  [[nodiscard]] const Token& peek(std::size_t ahead = 0) const;
  Token next();
  [[nodiscard]] bool is(TokenKind kind, std::string_view text = {}) const;
  [[nodiscard]] bool is_operator(std::string_view text) const {
    return is(TokenKind::kOperator, text);
  }
  [[nodiscard]] bool is_name(std::string_view text) const { return is(TokenKind::kName, text); }
  /// Takes it if it is there.
  bool skip(TokenKind kind, std::string_view text);
  bool skip_operator(std::string_view text) { return skip(TokenKind::kOperator, text); }
  bool skip_name(std::string_view text) { return skip(TokenKind::kName, text); }
  void expect(TokenKind kind, std::string_view text);
  void expect_operator(std::string_view text) { expect(TokenKind::kOperator, text); }
  [[nodiscard]] std::string expect_name();
  /// Bounds a chain of operators, which is evaluated by recursion. @param links  so far
  void check_links(int links) const;
  [[noreturn]] void fail_here(std::string_view what) const;
  [[noreturn]] void fail_unsupported(std::string_view what) const;

  /// Bounds recursion: alive while one level of the tree is parsed.
  class Level {
   public:
    explicit Level(Cursor& cursor);
    ~Level() { --cursor_.depth_; }
    Level(const Level&) = delete;
    Level& operator=(const Level&) = delete;

   private:
    Cursor& cursor_;
  };

 private:
  std::vector<Token> tokens_;
  std::string_view where_;
  std::size_t at_ = 0;
  int depth_ = 0;
};

/// With `a if b else c` at the top.
[[nodiscard]] ExpressionPtr parse_expression(Cursor& cursor);
/// Without it, as the source of a loop.
[[nodiscard]] ExpressionPtr parse_or(Cursor& cursor);
/// An expression, or several with commas between: a list.
[[nodiscard]] ExpressionPtr parse_tuple(Cursor& cursor);

}  // namespace cortiq::calib::jinja
