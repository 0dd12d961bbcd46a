#include <initializer_list>

#include "parser.hpp"
#include "statement.hpp"

namespace cortiq::calib::jinja {
namespace {

class TemplateParser {
 public:
  explicit TemplateParser(Cursor& cursor) : cursor_(cursor) {}

  /// Statements up to a tag of one of these names, whose name is taken and left in end_.
  Block parse_block(std::initializer_list<std::string_view> ends) {
    const Cursor::Level level(cursor_);
    Block block;
    while (!cursor_.is(TokenKind::kEnd)) {
      if (cursor_.is(TokenKind::kText)) {
        block.statements.push_back(std::make_unique<TextStatement>(cursor_.next().text));
      } else if (cursor_.skip(TokenKind::kOutBegin, "")) {
        block.statements.push_back(std::make_unique<PrintStatement>(parse_tuple(cursor_)));
        cursor_.expect(TokenKind::kOutEnd, "");
      } else {
        cursor_.expect(TokenKind::kTagBegin, "");
        end_ = cursor_.expect_name();
        for (const std::string_view end : ends) {
          if (end == end_) return block;
        }
        block.statements.push_back(parse_tag(end_));
      }
    }
    if (ends.size() > 0)
      cursor_.fail_here(fmt::format("{{% {} %}} is missing", *(ends.end() - 1)));
    return block;
  }

 private:
  std::unique_ptr<const Statement> parse_tag(const std::string& tag) {
    if (tag == "if") return parse_if();
    if (tag == "for") return parse_for();
    if (tag == "set") return parse_set();
    if (tag == "macro") return parse_macro();
    if (tag == "break" || tag == "continue") {
      if (loops_ == 0) cursor_.fail_here(tag + " outside of a loop");
      end_tag();
      return std::make_unique<JumpStatement>(tag == "break" ? Flow::kBreak : Flow::kContinue);
    }
    if (tag == "generation") {
      auto block = std::make_unique<PlainBlock>();
      end_tag();
      block->body = parse_block({"endgeneration"});
      end_tag();
      return block;
    }
    cursor_.fail_unsupported(fmt::format("the tag {{% {} %}} is not known here", tag));
  }
  void end_tag() { cursor_.expect(TokenKind::kTagEnd, ""); }

  std::unique_ptr<const Statement> parse_if() {
    auto statement = std::make_unique<IfStatement>();
    do {
      ExpressionPtr condition = parse_tuple(cursor_);
      end_tag();
      Block block = parse_block({"elif", "else", "endif"});
      statement->branches.emplace_back(std::move(condition), std::move(block));
    } while (end_ == "elif");
    const bool has_else = end_ == "else";
    end_tag();
    if (!has_else) return statement;
    statement->otherwise = parse_block({"endif"});
    end_tag();
    return statement;
  }

  std::vector<std::string> parse_names() {
    std::vector<std::string> names;
    const bool bracket = cursor_.skip_operator("(");
    do {
      names.push_back(cursor_.expect_name());
    } while (cursor_.skip_operator(","));
    if (bracket) cursor_.expect_operator(")");
    return names;
  }

  std::unique_ptr<const Statement> parse_for() {
    auto statement = std::make_unique<ForStatement>();
    statement->names = parse_names();
    cursor_.expect(TokenKind::kName, "in");
    statement->source = parse_or(cursor_);
    if (cursor_.skip_name("if")) statement->condition = parse_expression(cursor_);
    if (cursor_.is_name("recursive"))
      cursor_.fail_unsupported("recursive loops are not known here");
    end_tag();
    ++loops_;
    statement->body = parse_block({"else", "endfor"});
    --loops_;
    const bool has_else = end_ == "else";
    end_tag();
    if (!has_else) return statement;
    statement->otherwise = parse_block({"endfor"});
    end_tag();
    return statement;
  }

  std::unique_ptr<const Statement> parse_set() {
    auto statement = std::make_unique<SetStatement>();
    statement->names = parse_names();
    if (statement->names.size() == 1 && cursor_.skip_operator("."))
      statement->member = cursor_.expect_name();
    if (cursor_.skip_operator("=")) {
      statement->value = parse_tuple(cursor_);
      end_tag();
      return statement;
    }
    if (cursor_.is_operator("|"))
      cursor_.fail_unsupported("a filter on a block of {% set %} is not known here");
    end_tag();
    statement->body = parse_block({"endset"});
    end_tag();
    return statement;
  }

  std::unique_ptr<const Statement> parse_macro() {
    auto statement = std::make_unique<MacroStatement>();
    statement->name = cursor_.expect_name();
    cursor_.expect_operator("(");
    while (!cursor_.skip_operator(")")) {
      std::string parameter = cursor_.expect_name();
      ExpressionPtr fallback;
      if (cursor_.skip_operator("=")) fallback = parse_expression(cursor_);
      statement->parameters.emplace_back(std::move(parameter), std::move(fallback));
      if (!cursor_.is_operator(")")) cursor_.expect_operator(",");
    }
    end_tag();
    const int loops = std::exchange(loops_, 0);
    statement->body = std::make_shared<const Block>(parse_block({"endmacro"}));
    loops_ = loops;
    end_tag();
    return statement;
  }

  Cursor& cursor_;
  std::string end_;  // name of the tag that ended the last block
  int loops_ = 0;
};

}  // namespace

Block parse_template(std::vector<Token> tokens, std::string_view where) {
  Cursor cursor(std::move(tokens), where);
  return TemplateParser(cursor).parse_block({});
}

}  // namespace cortiq::calib::jinja
