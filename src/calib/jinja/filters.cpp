#include <algorithm>
#include <cmath>
#include <map>

#include "builtins.hpp"
#include "scope.hpp"

namespace cortiq::calib::jinja {
namespace {

using FilterFunction = Value (*)(const Value&, const Arguments&);

List items_of(const Value& value, std::string_view filter) {
  auto items = iterate(value);
  if (!items) refuse("the filter {} needs a list, not a {}", filter, value.type_name());
  return std::move(*items);
}

std::string text_of(const Arguments& arguments, std::size_t place, std::string_view name,
                    std::string_view fallback) {
  const Value* value = arguments.get(place, name);
  return value != nullptr ? value->text() : std::string(fallback);
}

bool flag_of(const Arguments& arguments, std::size_t place, std::string_view name) {
  const Value* value = arguments.get(place, name);
  return value != nullptr && value->truth();
}

Value length(const Value& value, const Arguments&) {
  const auto items = iterate(value);
  if (!items) refuse("a {} has no length", value.type_name());
  return static_cast<std::int64_t>(items->size());
}

Value trim(const Value& value, const Arguments& arguments) {
  const Value* set = arguments.get(0, "chars");
  const bool given = set != nullptr && set->string() != nullptr;
  return stripped(value.text(), given ? std::string_view(*set->string()) : kWhiteSpace, 0);
}

Value fallback(const Value& value, const Arguments& arguments) {
  const Value* other = arguments.get(0, "default_value");
  const bool falsy_too = flag_of(arguments, 1, "boolean");
  const bool missing = value.is_undefined() || (falsy_too && !value.truth());
  if (!missing) return value;
  return other != nullptr ? *other : Value("");
}

Value tojson(const Value& value, const Arguments& arguments) {
  if (value.is_undefined()) refuse("tojson of an undefined value");
  JsonStyle style;
  const Value* ascii = arguments.get(0, "ensure_ascii");
  const Value* indent = arguments.get(1, "indent");
  style.ensure_ascii = ascii != nullptr && ascii->truth();
  if (arguments.get(2, "separators") != nullptr) refuse("tojson takes no separators here");
  if (indent != nullptr && indent->is_integer()) style.indent = indent->integer();
  style.sort_keys = flag_of(arguments, 3, "sort_keys");
  return to_json(value, style);
}

Value join(const Value& value, const Arguments& arguments) {
  const std::string separator = text_of(arguments, 0, "d", "");
  const std::string attribute = text_of(arguments, 1, "attribute", "");
  std::string out;
  bool first = true;
  for (const Value& item : items_of(value, "join")) {
    if (!first) out += separator;
    first = false;
    out += attribute.empty() ? item.text() : get_member(item, attribute).text();
  }
  return out;
}

Value first(const Value& value, const Arguments&) {
  const List items = items_of(value, "first");
  return items.empty() ? Value::undefined("first") : items.front();
}

Value last(const Value& value, const Arguments&) {
  const List items = items_of(value, "last");
  return items.empty() ? Value::undefined("last") : items.back();
}

Value to_string(const Value& value, const Arguments&) { return value.text(); }
Value to_list(const Value& value, const Arguments&) { return items_of(value, "list"); }
Value as_it_is(const Value& value, const Arguments&) { return value; }

Value to_integer(const Value& value, const Arguments& arguments) {
  if (value.is_number()) return static_cast<std::int64_t>(value.number());
  if (const auto* text = value.string()) {
    try {
      return static_cast<std::int64_t>(std::stoll(*text));
    } catch (const std::exception&) {
      // not a number: the default
    }
  }
  const Value* other = arguments.get(0, "default");
  return other != nullptr ? *other : Value(std::int64_t{0});
}

Value to_float(const Value& value, const Arguments& arguments) {
  if (value.is_number()) return value.number();
  if (const auto* text = value.string()) {
    try {
      return std::stod(*text);
    } catch (const std::exception&) {
      // not a number: the default
    }
  }
  const Value* other = arguments.get(0, "default");
  return other != nullptr ? *other : Value(0.0);
}

template <const char* const& name>
Value string_filter(const Value& value, const Arguments& arguments) {
  return call_method(Value(value.text()), name, arguments);
}
constexpr const char* kUpper = "upper";
constexpr const char* kLower = "lower";
constexpr const char* kCapitalize = "capitalize";
constexpr const char* kTitle = "title";
constexpr const char* kReplace = "replace";

Value items(const Value& value, const Arguments&) {
  if (value.is_undefined()) return List{};
  if (value.dict() == nullptr) refuse("the filter items needs a dict, not a {}", value.type_name());
  return call_method(value, "items", {});
}

Value reverse(const Value& value, const Arguments&) {
  List list = items_of(value, "reverse");
  std::reverse(list.begin(), list.end());
  if (value.string() == nullptr) return list;
  return call_method(Value(""), "join", {{Value(list)}, {}});
}

Value map(const Value& value, const Arguments& arguments) {
  List result;
  const Value* attribute = nullptr;
  for (const auto& [name, argument] : arguments.keyword) {
    if (name == "attribute") attribute = &argument;
  }
  for (const Value& item : items_of(value, "map")) {
    if (attribute != nullptr) {
      result.push_back(get_item(item, *attribute));
      continue;
    }
    const std::string name = text_of(arguments, 0, "", "");
    if (!is_filter(name)) refuse("the filter '{}' is not known here", name);
    Arguments rest = arguments;
    rest.positional.erase(rest.positional.begin());
    result.push_back(apply_filter(name, item, rest));
  }
  return result;
}

/// select, reject, selectattr, rejectattr.
Value choose(const Value& value, const Arguments& arguments, bool by_attribute, bool wanted) {
  const std::size_t at = by_attribute ? 1 : 0;
  if (by_attribute && arguments.positional.empty()) refuse("selectattr needs an attribute");
  const std::string test = text_of(arguments, at, "", "");
  if (!test.empty() && !is_test(test)) refuse("the test '{}' is not known here", test);
  Arguments rest;
  for (std::size_t i = at + 1; i < arguments.positional.size(); ++i)
    rest.positional.push_back(arguments.positional[i]);
  List result;
  for (const Value& item : items_of(value, "select")) {
    const Value subject = by_attribute ? get_item(item, arguments.positional[0]) : item;
    const bool hit = test.empty() ? subject.truth() : apply_test(test, subject, rest);
    if (hit == wanted) result.push_back(item);
  }
  return result;
}
Value select(const Value& v, const Arguments& a) { return choose(v, a, false, true); }
Value reject(const Value& v, const Arguments& a) { return choose(v, a, false, false); }
Value selectattr(const Value& v, const Arguments& a) { return choose(v, a, true, true); }
Value rejectattr(const Value& v, const Arguments& a) { return choose(v, a, true, false); }

bool ordered(const Value& a, const Value& b) {
  const auto below = less(a, b);
  if (!below) refuse("a {} and a {} have no order", a.type_name(), b.type_name());
  return *below;
}

/// Strings without regard to case, as Jinja sorts.
Value sort_key(const Value& item, const std::string& attribute) {
  const Value key = attribute.empty() ? item : get_member(item, attribute);
  return key.string() != nullptr ? call_method(key, "lower", {}) : key;
}

Value sort(const Value& value, const Arguments& arguments) {
  List list = items_of(value, "sort");
  const std::string attribute = text_of(arguments, 2, "attribute", "");
  std::stable_sort(list.begin(), list.end(), [&](const Value& a, const Value& b) {
    return ordered(sort_key(a, attribute), sort_key(b, attribute));
  });
  if (flag_of(arguments, 0, "reverse")) std::reverse(list.begin(), list.end());
  return list;
}

Value dictsort(const Value& value, const Arguments&) {
  if (value.dict() == nullptr) refuse("dictsort needs a dict");
  List list = items_of(call_method(value, "items", {}), "dictsort");
  std::stable_sort(list.begin(), list.end(), [](const Value& a, const Value& b) {
    return ordered(sort_key((*a.list())[0], ""), sort_key((*b.list())[0], ""));
  });
  return list;
}

Value unique(const Value& value, const Arguments&) {
  List result;
  for (const Value& item : items_of(value, "unique")) {
    const bool known = std::any_of(result.begin(), result.end(), [&](const Value& other) {
      return equal(sort_key(item, ""), sort_key(other, ""));
    });
    if (!known) result.push_back(item);
  }
  return result;
}

Value indent(const Value& value, const Arguments& arguments) {
  const Value* width = arguments.get(0, "width");
  const std::string blanks =
      width != nullptr && width->string() != nullptr
          ? *width->string()
          : std::string(static_cast<std::size_t>(std::clamp<std::int64_t>(
                            width != nullptr && width->is_integer() ? width->integer() : 4, 0, 1000)),
                        ' ');
  const std::string text = value.text();
  std::string out = flag_of(arguments, 1, "first") ? blanks : "";
  for (std::size_t i = 0; i < text.size(); ++i) {
    out += text[i];
    const bool ends = i + 1 == text.size();
    const bool blank_line = !ends && text[i + 1] == '\n';
    if (text[i] == '\n' && !ends && (!blank_line || flag_of(arguments, 2, "blank"))) out += blanks;
  }
  return out;
}

Value absolute(const Value& value, const Arguments&) {
  if (!value.is_number()) refuse("abs needs a number");
  if (value.is_float()) return std::fabs(value.number());
  return value.integer() < 0 ? -value.integer() : value.integer();
}

const std::map<std::string_view, FilterFunction>& filters() {
  static const std::map<std::string_view, FilterFunction> kFilters{
      {"abs", absolute},          {"capitalize", string_filter<kCapitalize>},
      {"count", length},          {"d", fallback},
      {"default", fallback},      {"dictsort", dictsort},
      {"first", first},           {"float", to_float},
      {"indent", indent},         {"int", to_integer},
      {"items", items},           {"join", join},
      {"last", last},             {"length", length},
      {"list", to_list},          {"lower", string_filter<kLower>},
      {"map", map},               {"reject", reject},
      {"rejectattr", rejectattr}, {"replace", string_filter<kReplace>},
      {"reverse", reverse},       {"safe", as_it_is},
      {"select", select},         {"selectattr", selectattr},
      {"sort", sort},             {"string", to_string},
      {"title", string_filter<kTitle>}, {"tojson", tojson},
      {"trim", trim},             {"unique", unique},
      {"upper", string_filter<kUpper>},
  };
  return kFilters;
}

}  // namespace

bool is_filter(std::string_view name) { return filters().contains(name); }

Value apply_filter(std::string_view name, const Value& input, const Arguments& arguments) {
  return filters().at(name)(input, arguments);
}

}  // namespace cortiq::calib::jinja
