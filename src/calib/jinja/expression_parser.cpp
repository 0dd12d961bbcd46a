// The grammar of expressions, one function per level of binding, loosest first.
#include <algorithm>
#include <charconv>

#include "builtins.hpp"
#include "parser.hpp"

namespace cortiq::calib::jinja {
namespace {

ExpressionPtr parse_unary(Cursor& cursor, bool with_filter);

CallArguments parse_arguments(Cursor& cursor) {
  CallArguments arguments;
  cursor.expect_operator("(");
  while (!cursor.skip_operator(")")) {
    if (cursor.is_operator("*") || cursor.is_operator("**"))
      cursor.fail_unsupported("arguments with * are not known here");
    const bool named = cursor.is(TokenKind::kName) &&
                       cursor.peek(1).kind == TokenKind::kOperator && cursor.peek(1).text == "=";
    if (named) {
      std::string name = cursor.next().text;
      (void)cursor.next();
      arguments.keyword.emplace_back(std::move(name), parse_expression(cursor));
    } else {
      arguments.positional.push_back(parse_expression(cursor));
    }
    if (!cursor.is_operator(")")) cursor.expect_operator(",");
  }
  return arguments;
}

ExpressionPtr parse_list(Cursor& cursor) {
  auto list = std::make_unique<ListLiteral>();
  while (!cursor.skip_operator("]")) {
    list->items.push_back(parse_expression(cursor));
    if (!cursor.is_operator("]")) cursor.expect_operator(",");
  }
  return list;
}

ExpressionPtr parse_dict(Cursor& cursor) {
  auto dict = std::make_unique<DictLiteral>();
  while (!cursor.skip_operator("}")) {
    ExpressionPtr key = parse_expression(cursor);
    cursor.expect_operator(":");
    dict->items.emplace_back(std::move(key), parse_expression(cursor));
    if (!cursor.is_operator("}")) cursor.expect_operator(",");
  }
  return dict;
}

ExpressionPtr parse_parenthesis(Cursor& cursor) {
  if (cursor.skip_operator(")")) return std::make_unique<ListLiteral>();
  ExpressionPtr inner = parse_tuple(cursor);
  cursor.expect_operator(")");
  return inner;
}

ExpressionPtr parse_number(Cursor& cursor) {
  const Token token = cursor.next();
  const char* begin = token.text.data();
  const char* end = begin + token.text.size();
  if (token.kind == TokenKind::kInteger) {
    std::int64_t value = 0;
    std::from_chars(begin, end, value);
    return std::make_unique<Literal>(value);
  }
  double value = 0;
  std::from_chars(begin, end, value);
  return std::make_unique<Literal>(value);
}

ExpressionPtr parse_primary(Cursor& cursor) {
  if (cursor.is(TokenKind::kInteger) || cursor.is(TokenKind::kFloat)) return parse_number(cursor);
  if (cursor.is(TokenKind::kString)) {
    std::string text;
    while (cursor.is(TokenKind::kString)) text += cursor.next().text;
    return std::make_unique<Literal>(std::move(text));
  }
  if (cursor.skip_operator("(")) return parse_parenthesis(cursor);
  if (cursor.skip_operator("[")) return parse_list(cursor);
  if (cursor.skip_operator("{")) return parse_dict(cursor);
  const std::string name = cursor.expect_name();
  if (name == "true" || name == "True") return std::make_unique<Literal>(true);
  if (name == "false" || name == "False") return std::make_unique<Literal>(false);
  if (name == "none" || name == "None") return std::make_unique<Literal>(Value::none());
  return std::make_unique<Name>(name);
}

ExpressionPtr parse_subscript(Cursor& cursor, ExpressionPtr object) {
  auto slice = std::make_unique<Slice>();
  ExpressionPtr* parts[] = {&slice->begin, &slice->end, &slice->step};
  std::size_t colons = 0;
  while (!cursor.skip_operator("]")) {
    if (cursor.skip_operator(":")) {
      if (++colons > 2) cursor.fail_here("a slice has at most three parts");
      continue;
    }
    if (*parts[colons]) cursor.fail_here("']' or ':' is missing");
    *parts[colons] = parse_expression(cursor);
  }
  if (colons == 0) {
    if (!slice->begin) cursor.fail_here("an index is missing");
    return std::make_unique<Subscript>(std::move(object), std::move(slice->begin));
  }
  slice->object = std::move(object);
  return slice;
}

ExpressionPtr parse_postfix(Cursor& cursor, ExpressionPtr object) {
  for (int links = 0;; ++links) {
    cursor.check_links(links);
    if (cursor.skip_operator(".")) {
      if (cursor.is(TokenKind::kInteger)) {
        object = std::make_unique<Subscript>(std::move(object), parse_number(cursor));
      } else {
        object = std::make_unique<Member>(std::move(object), cursor.expect_name());
      }
    } else if (cursor.skip_operator("[")) {
      object = parse_subscript(cursor, std::move(object));
    } else if (cursor.is_operator("(")) {
      auto call = std::make_unique<Call>();
      call->callee = std::move(object);
      call->arguments = parse_arguments(cursor);
      object = std::move(call);
    } else {
      return object;
    }
  }
}

ExpressionPtr parse_filter(Cursor& cursor, ExpressionPtr input) {
  auto filter = std::make_unique<Filter>();
  filter->input = std::move(input);
  filter->name = cursor.expect_name();
  if (!is_filter(filter->name))
    cursor.fail_unsupported(fmt::format("the filter {} is not known here", filter->name));
  if (cursor.is_operator("(")) filter->arguments = parse_arguments(cursor);
  return filter;
}

bool begins_operand(const Cursor& cursor) {
  const TokenKind kind = cursor.peek().kind;
  if (kind == TokenKind::kName) {
    for (const std::string_view word : {"else", "or", "and", "is", "if", "in", "not"}) {
      if (cursor.is_name(word)) return false;
    }
    return true;
  }
  return kind == TokenKind::kString || kind == TokenKind::kInteger || kind == TokenKind::kFloat ||
         cursor.is_operator("[") || cursor.is_operator("{");
}

ExpressionPtr parse_test(Cursor& cursor, ExpressionPtr input) {
  auto test = std::make_unique<Test>();
  test->input = std::move(input);
  test->negated = cursor.skip_name("not");
  test->name = cursor.expect_name();
  if (!is_test(test->name))
    cursor.fail_unsupported(fmt::format("the test {} is not known here", test->name));
  if (cursor.is_operator("(")) {
    test->arguments = parse_arguments(cursor);
  } else if (begins_operand(cursor)) {
    test->arguments.positional.push_back(parse_postfix(cursor, parse_primary(cursor)));
  }
  return test;
}

ExpressionPtr parse_filters(Cursor& cursor, ExpressionPtr value) {
  for (int links = 0;; ++links) {
    cursor.check_links(links);
    if (cursor.skip_operator("|")) {
      value = parse_filter(cursor, std::move(value));
    } else if (cursor.skip_name("is")) {
      value = parse_test(cursor, std::move(value));
    } else if (cursor.is_operator("(")) {
      value = parse_postfix(cursor, std::move(value));
    } else {
      return value;
    }
  }
}

ExpressionPtr parse_unary(Cursor& cursor, bool with_filter) {
  const Cursor::Level level(cursor);
  ExpressionPtr value;
  if (cursor.is_operator("-") || cursor.is_operator("+")) {
    std::string op = cursor.next().text;
    value = std::make_unique<Unary>(std::move(op), parse_unary(cursor, false));
  } else {
    value = parse_postfix(cursor, parse_primary(cursor));
  }
  return with_filter ? parse_filters(cursor, std::move(value)) : std::move(value);
}

/// One level of left-binding operators over the next tighter level.
template <typename Next>
ExpressionPtr parse_left(Cursor& cursor, std::initializer_list<std::string_view> operators,
                         Next next) {
  ExpressionPtr value = next(cursor);
  for (int links = 0;; ++links) {
    cursor.check_links(links);
    const bool here = std::any_of(operators.begin(), operators.end(),
                                  [&](std::string_view op) { return cursor.is_operator(op); });
    if (!here) return value;
    std::string op = cursor.next().text;
    value = std::make_unique<Binary>(std::move(op), std::move(value), next(cursor));
  }
}

ExpressionPtr parse_power(Cursor& cursor) {
  return parse_left(cursor, {"**"}, [](Cursor& c) { return parse_unary(c, true); });
}
ExpressionPtr parse_product(Cursor& cursor) {
  return parse_left(cursor, {"*", "/", "//", "%"}, parse_power);
}
ExpressionPtr parse_concatenation(Cursor& cursor) {
  return parse_left(cursor, {"~"}, parse_product);
}
ExpressionPtr parse_sum(Cursor& cursor) {
  return parse_left(cursor, {"+", "-"}, parse_concatenation);
}

std::string comparison_here(Cursor& cursor) {
  for (const std::string_view op : {"==", "!=", "<", "<=", ">", ">="}) {
    if (cursor.skip_operator(op)) return std::string(op);
  }
  if (cursor.skip_name("in")) return std::string("in");
  const bool not_in = cursor.is_name("not") && cursor.peek(1).kind == TokenKind::kName &&
                      cursor.peek(1).text == "in";
  if (!not_in) return {};
  (void)cursor.next();
  (void)cursor.next();
  return std::string("not in");
}

ExpressionPtr parse_comparison(Cursor& cursor) {
  ExpressionPtr value = parse_sum(cursor);
  std::string op = comparison_here(cursor);
  if (op.empty()) return value;
  value = std::make_unique<Binary>(op, std::move(value), parse_sum(cursor));
  if (!comparison_here(cursor).empty())
    cursor.fail_unsupported("comparisons in a chain are not known here");
  return value;
}

ExpressionPtr parse_not(Cursor& cursor) {
  const Cursor::Level level(cursor);
  if (!cursor.skip_name("not")) return parse_comparison(cursor);
  return std::make_unique<Unary>("not", parse_not(cursor));
}

ExpressionPtr parse_and(Cursor& cursor) {
  ExpressionPtr value = parse_not(cursor);
  for (int links = 0; cursor.skip_name("and"); ++links) {
    cursor.check_links(links);
    value = std::make_unique<Binary>("and", std::move(value), parse_not(cursor));
  }
  return value;
}

}  // namespace

ExpressionPtr parse_or(Cursor& cursor) {
  ExpressionPtr value = parse_and(cursor);
  for (int links = 0; cursor.skip_name("or"); ++links) {
    cursor.check_links(links);
    value = std::make_unique<Binary>("or", std::move(value), parse_and(cursor));
  }
  return value;
}

ExpressionPtr parse_expression(Cursor& cursor) {
  const Cursor::Level level(cursor);
  ExpressionPtr value = parse_or(cursor);
  for (int links = 0; cursor.skip_name("if"); ++links) {
    cursor.check_links(links);
    auto conditional = std::make_unique<Conditional>();
    conditional->value = std::move(value);
    conditional->condition = parse_or(cursor);
    if (cursor.skip_name("else")) conditional->otherwise = parse_expression(cursor);
    value = std::move(conditional);
  }
  return value;
}

ExpressionPtr parse_tuple(Cursor& cursor) {
  ExpressionPtr first = parse_expression(cursor);
  if (!cursor.is_operator(",")) return first;
  auto list = std::make_unique<ListLiteral>();
  list->items.push_back(std::move(first));
  while (cursor.skip_operator(",")) {
    const bool ends = cursor.is_operator(")") || cursor.is(TokenKind::kTagEnd) ||
                      cursor.is(TokenKind::kOutEnd);
    if (ends) break;
    list->items.push_back(parse_expression(cursor));
  }
  return list;
}

}  // namespace cortiq::calib::jinja
