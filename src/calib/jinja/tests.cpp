// The tests behind `is`.
#include <map>

#include "builtins.hpp"
#include "scope.hpp"

namespace cortiq::calib::jinja {
namespace {

using TestFunction = bool (*)(const Value&, const Value*);

bool is_string(const Value& v, const Value*) { return v.string() != nullptr; }
bool is_defined(const Value& v, const Value*) { return !v.is_undefined(); }
bool is_undefined(const Value& v, const Value*) { return v.is_undefined(); }
bool is_none(const Value& v, const Value*) { return v.is_none(); }
bool is_mapping(const Value& v, const Value*) { return v.dict() != nullptr; }
bool is_sequence(const Value& v, const Value*) { return iterate(v).has_value(); }
bool is_number(const Value& v, const Value*) { return v.is_number(); }
bool is_integer(const Value& v, const Value*) { return v.is_integer() && !v.is_bool(); }
bool is_float(const Value& v, const Value*) { return v.is_float(); }
bool is_boolean(const Value& v, const Value*) { return v.is_bool(); }
bool is_true(const Value& v, const Value*) { return v.is_bool() && v.truth(); }
bool is_false(const Value& v, const Value*) { return v.is_bool() && !v.truth(); }
bool is_callable(const Value& v, const Value*) { return v.function() != nullptr; }

std::int64_t whole(const Value& v) {
  if (!v.is_integer()) refuse("the test needs an integer, not a {}", v.type_name());
  return v.integer();
}
bool is_even(const Value& v, const Value*) { return whole(v) % 2 == 0; }
bool is_odd(const Value& v, const Value*) { return whole(v) % 2 != 0; }

const Value& other(const Value* argument) {
  if (argument == nullptr) refuse("the test needs a value to compare with");
  return *argument;
}
bool is_divisible(const Value& v, const Value* by) {
  const std::int64_t divisor = whole(other(by));
  if (divisor == 0) refuse("division by zero");
  return divisor == -1 || whole(v) % divisor == 0;
}
bool is_equal(const Value& v, const Value* to) { return equal(v, other(to)); }
bool is_unequal(const Value& v, const Value* to) { return !equal(v, other(to)); }
bool ordered(const Value& a, const Value& b) {
  const auto below = less(a, b);
  if (!below) refuse("a {} and a {} have no order", a.type_name(), b.type_name());
  return *below;
}
bool is_less(const Value& v, const Value* than) { return ordered(v, other(than)); }
bool is_greater(const Value& v, const Value* than) { return ordered(other(than), v); }
bool is_at_most(const Value& v, const Value* than) { return !ordered(other(than), v); }
bool is_at_least(const Value& v, const Value* than) { return !ordered(v, other(than)); }
bool is_in(const Value& v, const Value* container) {
  const auto found = contains(other(container), v);
  if (!found) refuse("a {} holds nothing", container->type_name());
  return *found;
}
bool is_lower(const Value& v, const Value*) {
  return equal(call_method(Value(v.text()), "lower", {}), Value(v.text()));
}
bool is_upper(const Value& v, const Value*) {
  return equal(call_method(Value(v.text()), "upper", {}), Value(v.text()));
}

const std::map<std::string_view, TestFunction>& tests() {
  static const std::map<std::string_view, TestFunction> kTests{
      {"boolean", is_boolean},   {"callable", is_callable},   {"defined", is_defined},
      {"divisibleby", is_divisible}, {"eq", is_equal},        {"equalto", is_equal},
      {"==", is_equal},          {"even", is_even},           {"false", is_false},
      {"float", is_float},       {"ge", is_at_least},         {"greaterthan", is_greater},
      {"gt", is_greater},        {"in", is_in},               {"integer", is_integer},
      {"iterable", is_sequence}, {"le", is_at_most},          {"lessthan", is_less},
      {"lower", is_lower},       {"lt", is_less},             {"mapping", is_mapping},
      {"ne", is_unequal},        {"!=", is_unequal},          {"none", is_none},
      {"number", is_number},     {"odd", is_odd},             {"sequence", is_sequence},
      {"string", is_string},     {"true", is_true},           {"undefined", is_undefined},
      {"upper", is_upper},
  };
  return kTests;
}

}  // namespace

bool is_test(std::string_view name) { return tests().contains(name); }

bool apply_test(std::string_view name, const Value& input, const Arguments& arguments) {
  return tests().at(name)(input, arguments.get(0, ""));
}

}  // namespace cortiq::calib::jinja
