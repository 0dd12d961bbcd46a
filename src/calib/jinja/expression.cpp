#include "expression.hpp"

#include <algorithm>
#include <cmath>

#include "builtins.hpp"

namespace cortiq::calib::jinja {
namespace {

[[noreturn]] void refuse_operands(std::string_view op, const Value& a, const Value& b) {
  refuse("'{}' of {} and {} has no meaning", op, a.type_name(), b.type_name());
}

std::int64_t floor_divide(std::int64_t a, std::int64_t b) {
  const std::int64_t quotient = a / b;
  return a % b != 0 && (a < 0) != (b < 0) ? quotient - 1 : quotient;
}

Value integer_arithmetic(char op, std::int64_t a, std::int64_t b) {
  std::int64_t result = 0;
  bool overflow = false;
  if (op == '+') overflow = __builtin_add_overflow(a, b, &result);
  if (op == '-') overflow = __builtin_sub_overflow(a, b, &result);
  if (op == '*') overflow = __builtin_mul_overflow(a, b, &result);
  if (op == 'f' || op == '%') {
    if (b == 0 || (b == -1 && a == INT64_MIN)) refuse("division by zero");
    result = op == 'f' ? floor_divide(a, b) : a - b * floor_divide(a, b);
  }
  if (overflow) refuse("an integer is too large");
  return result;
}

Value float_arithmetic(char op, double a, double b) {
  if ((op == '/' || op == 'f' || op == '%') && b == 0) refuse("division by zero");
  switch (op) {
    case '+':
      return a + b;
    case '-':
      return a - b;
    case '*':
      return a * b;
    case '/':
      return a / b;
    case 'f':
      return std::floor(a / b);
    default:
      return a - b * std::floor(a / b);
  }
}

Value power(const Value& a, const Value& b) {
  const double result = std::pow(a.number(), b.number());
  const bool whole = a.is_integer() && b.is_integer() && b.integer() >= 0;
  if (!whole) return result;
  if (std::fabs(result) > 9.0e15) refuse("an integer is too large");
  return static_cast<std::int64_t>(result);
}

Value repeat(const std::string& text, std::int64_t times) {
  std::string out;
  const auto count = static_cast<std::size_t>(std::max<std::int64_t>(times, 0));
  if (count > kMostOutputBytes || text.size() * count > kMostOutputBytes)
    refuse("a repeated string is too long");
  for (std::size_t i = 0; i < count; ++i) out += text;
  return out;
}

Value add(const Value& a, const Value& b) {
  if (a.string() != nullptr && b.string() != nullptr) return *a.string() + *b.string();
  if (a.list() != nullptr && b.list() != nullptr) {
    List joined = *a.list();
    joined.insert(joined.end(), b.list()->begin(), b.list()->end());
    return joined;
  }
  refuse_operands("+", a, b);
}

Value arithmetic(const std::string& op, const Value& a, const Value& b) {
  const bool numbers = a.is_number() && b.is_number();
  if (!numbers && op == "+") return add(a, b);
  if (!numbers && op == "*" && a.string() != nullptr && b.is_integer())
    return repeat(*a.string(), b.integer());
  if (!numbers) refuse_operands(op, a, b);
  if (op == "**") return power(a, b);
  const char code = op == "//" ? 'f' : op.front();
  if (a.is_integer() && b.is_integer() && code != '/')
    return integer_arithmetic(code, a.integer(), b.integer());
  return float_arithmetic(code, a.number(), b.number());
}

bool compare(const std::string& op, const Value& a, const Value& b) {
  if (op == "==") return equal(a, b);
  if (op == "!=") return !equal(a, b);
  if (op == "in" || op == "not in") {
    const auto found = contains(b, a);
    if (!found) refuse_operands(op, a, b);
    return *found == (op == "in");
  }
  const auto below = less(a, b);
  if (!below) refuse_operands(op, a, b);
  if (op == "<") return *below;
  if (op == "<=") return *below || equal(a, b);
  if (op == ">") return !*below && !equal(a, b);
  return !*below;
}

/// Python's rule for one end of a slice.
std::int64_t slice_end(const Value& given, std::int64_t size, std::int64_t low, std::int64_t high) {
  if (!given.is_integer()) refuse("a slice needs integers");
  std::int64_t at = given.integer();
  if (at < 0) at += size;
  return std::clamp(at, low, high);
}

}  // namespace

Arguments CallArguments::evaluate(Scope& scope) const {
  Arguments result;
  for (const auto& argument : positional) result.positional.push_back(argument->evaluate(scope));
  for (const auto& [name, argument] : keyword)
    result.keyword.emplace_back(name, argument->evaluate(scope));
  return result;
}

Value Name::evaluate(Scope& scope) const {
  const Value* value = scope.find(name);
  return value != nullptr ? *value : Value::undefined(name);
}

Value ListLiteral::evaluate(Scope& scope) const {
  List list;
  for (const auto& item : items) list.push_back(item->evaluate(scope));
  return list;
}

Value DictLiteral::evaluate(Scope& scope) const {
  Dict dict;
  for (const auto& [key, value] : items)
    dict.set(key->evaluate(scope).text(), value->evaluate(scope));
  return dict;
}

Value Member::evaluate(Scope& scope) const { return get_member(object->evaluate(scope), name); }

Value Subscript::evaluate(Scope& scope) const {
  const Value container = object->evaluate(scope);
  return get_item(container, index->evaluate(scope));
}

Value Slice::evaluate(Scope& scope) const {
  const Value container = object->evaluate(scope);
  const auto items = iterate(container);
  if (!items || container.dict() != nullptr || container.is_undefined())
    refuse("a {} cannot be sliced", container.type_name());
  const auto size = static_cast<std::int64_t>(items->size());
  const Value stride = step ? step->evaluate(scope) : Value(std::int64_t{1});
  if (!stride.is_integer() || stride.integer() == 0) refuse("a slice needs a step that is not 0");
  const std::int64_t by = std::clamp(stride.integer(), -size - 1, size + 1);
  const bool up = by > 0;
  std::int64_t from = up ? 0 : size - 1;
  std::int64_t to = up ? size : -1;
  if (begin) from = slice_end(begin->evaluate(scope), size, up ? 0 : -1, up ? size : size - 1);
  if (end) to = slice_end(end->evaluate(scope), size, up ? 0 : -1, up ? size : size - 1);
  List list;
  std::string text;
  for (std::int64_t i = from; up ? i < to : i > to; i += by) {
    const Value& item = (*items)[static_cast<std::size_t>(i)];
    if (container.string() != nullptr) text += *item.string();
    if (container.list() != nullptr) list.push_back(item);
  }
  if (container.string() != nullptr) return text;
  return list;
}

Value Call::evaluate(Scope& scope) const {
  scope.step();
  if (const auto* member = dynamic_cast<const Member*>(callee.get())) {
    const Value object = member->object->evaluate(scope);
    const Value* own = nullptr;
    if (object.as_namespace() != nullptr) own = object.as_namespace()->members.find(member->name);
    if (object.dict() != nullptr) own = object.dict()->find(member->name);
    if (own != nullptr && own->function() != nullptr)
      return (*own->function())(arguments.evaluate(scope));
    return call_method(object, member->name, arguments.evaluate(scope));
  }
  const Value value = callee->evaluate(scope);
  if (value.function() == nullptr) {
    const auto* name = dynamic_cast<const Name*>(callee.get());
    refuse("{} is no function", name != nullptr ? name->name : std::string(value.type_name()));
  }
  return (*value.function())(arguments.evaluate(scope));
}

Value Filter::evaluate(Scope& scope) const {
  const Value value = input->evaluate(scope);
  return apply_filter(name, value, arguments.evaluate(scope));
}

Value Test::evaluate(Scope& scope) const {
  const Value value = input->evaluate(scope);
  return apply_test(name, value, arguments.evaluate(scope)) != negated;
}

Value Unary::evaluate(Scope& scope) const {
  const Value value = operand->evaluate(scope);
  if (op == "not") return !value.truth();
  if (!value.is_number()) refuse("'{}' of a {} has no meaning", op, value.type_name());
  return arithmetic(op, Value(std::int64_t{0}), value);
}

Value Binary::evaluate(Scope& scope) const {
  scope.step();
  if (op == "and" || op == "or") {
    Value value = left->evaluate(scope);
    return value.truth() == (op == "or") ? value : right->evaluate(scope);
  }
  const Value a = left->evaluate(scope);
  const Value b = right->evaluate(scope);
  if (op == "~") return a.text() + b.text();
  constexpr std::string_view kComparisons[] = {"==", "!=", "<", "<=", ">", ">=", "in", "not in"};
  if (std::find(std::begin(kComparisons), std::end(kComparisons), op) != std::end(kComparisons))
    return compare(op, a, b);
  return arithmetic(op, a, b);
}

Value Conditional::evaluate(Scope& scope) const {
  if (condition->evaluate(scope).truth()) return value->evaluate(scope);
  return otherwise ? otherwise->evaluate(scope) : Value::undefined("");
}

}  // namespace cortiq::calib::jinja
