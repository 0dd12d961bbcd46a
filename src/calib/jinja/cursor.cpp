#include <algorithm>

#include "cortiq/support/error.hpp"
#include "parser.hpp"

namespace cortiq::calib::jinja {
namespace {

std::string spelled(const Token& token) {
  switch (token.kind) {
    case TokenKind::kEnd:
      return "the end of the template";
    case TokenKind::kTagEnd:
      return "'%}'";
    case TokenKind::kOutEnd:
      return "'}}'";
    default:
      return "'" + token.text + "'";
  }
}

}  // namespace

const Token& Cursor::peek(std::size_t ahead) const {
  return tokens_[std::min(at_ + ahead, tokens_.size() - 1)];
}

Token Cursor::next() {
  const Token token = peek();
  if (at_ + 1 < tokens_.size()) ++at_;
  return token;
}

bool Cursor::is(TokenKind kind, std::string_view text) const {
  return peek().kind == kind && (text.empty() || peek().text == text);
}

bool Cursor::skip(TokenKind kind, std::string_view text) {
  if (!is(kind, text)) return false;
  (void)next();
  return true;
}

void Cursor::expect(TokenKind kind, std::string_view text) {
  if (skip(kind, text)) return;
  fail_here(text.empty() ? fmt::format("{} is not expected here", spelled(peek()))
                         : fmt::format("{} instead of '{}'", spelled(peek()), text));
}

std::string Cursor::expect_name() {
  if (!is(TokenKind::kName)) fail_here(fmt::format("{} is no name", spelled(peek())));
  return next().text;
}

void Cursor::check_links(int links) const {
  constexpr int kMostLinks = 500;
  if (links > kMostLinks) fail_here("an expression is too long");
}

void Cursor::fail_here(std::string_view what) const {
  fail(ErrorKind::kInput, "{}: line {}: {}", where_, peek().line, what);
}

void Cursor::fail_unsupported(std::string_view what) const {
  fail(ErrorKind::kUnsupported,
       "{}: line {}: {}; render the conversations with the model's own tokenizer and give the text "
       "as .txt or .jsonl",
       where_, peek().line, what);
}

Cursor::Level::Level(Cursor& cursor) : cursor_(cursor) {
  constexpr int kDeepest = 150;
  if (++cursor_.depth_ <= kDeepest) return;
  --cursor_.depth_;
  cursor_.fail_here("is nested too deep");
}

}  // namespace cortiq::calib::jinja
