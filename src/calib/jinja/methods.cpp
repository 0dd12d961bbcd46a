// Methods of strings, lists and dicts, and access to members.
#include <algorithm>
#include <array>
#include <cctype>

#include "builtins.hpp"
#include "scope.hpp"

namespace cortiq::calib::jinja {
namespace {

char lower(char c) { return static_cast<char>(std::tolower(static_cast<unsigned char>(c))); }
char upper(char c) { return static_cast<char>(std::toupper(static_cast<unsigned char>(c))); }
bool is_letter(char c) { return std::isalpha(static_cast<unsigned char>(c)) != 0; }

const std::string& text_argument(const Arguments& arguments, std::size_t place,
                                 std::string_view method) {
  const Value* value = arguments.get(place, "");
  if (value == nullptr || value->string() == nullptr) refuse("{} needs a string", method);
  return *value->string();
}

std::string replaced(const std::string& text, const std::string& from, const std::string& to,
                     std::int64_t most) {
  if (from.empty()) return text;
  std::string out;
  std::size_t at = 0;
  for (std::int64_t done = 0; most < 0 || done < most; ++done) {
    const std::size_t found = text.find(from, at);
    if (found == std::string::npos) break;
    out += text.substr(at, found - at) + to;
    at = found + from.size();
  }
  return out + text.substr(at);
}

List split_at_space(const std::string& text, std::int64_t most) {
  List parts;
  std::size_t at = text.find_first_not_of(kWhiteSpace);
  while (at != std::string::npos) {
    if (most >= 0 && static_cast<std::int64_t>(parts.size()) == most) {
      parts.emplace_back(stripped(text.substr(at), kWhiteSpace, 1));
      break;
    }
    const std::size_t end = std::min(text.find_first_of(kWhiteSpace, at), text.size());
    parts.emplace_back(text.substr(at, end - at));
    at = text.find_first_not_of(kWhiteSpace, end);
  }
  return parts;
}

List split_at(const std::string& text, const std::string& separator, std::int64_t most) {
  if (separator.empty()) refuse("split needs a separator");
  List parts;
  std::size_t at = 0;
  while (most < 0 || static_cast<std::int64_t>(parts.size()) < most) {
    const std::size_t found = text.find(separator, at);
    if (found == std::string::npos) break;
    parts.emplace_back(text.substr(at, found - at));
    at = found + separator.size();
  }
  parts.emplace_back(text.substr(at));
  return parts;
}

List split_at_from_end(const std::string& text, const std::string& separator, std::int64_t most) {
  List parts = split_at(text, separator, -1);
  if (most < 0) return parts;
  while (static_cast<std::int64_t>(parts.size()) > most + 1) {
    parts[1] = *parts[0].string() + separator + *parts[1].string();
    parts.erase(parts.begin());
  }
  return parts;
}

Value split(const std::string& text, const Arguments& arguments, bool from_end) {
  const Value* separator = arguments.get(0, "sep");
  const Value* limit = arguments.get(1, "maxsplit");
  const std::int64_t most = limit != nullptr && limit->is_integer() ? limit->integer() : -1;
  if (separator == nullptr || separator->is_none()) {
    if (from_end && most >= 0) refuse("rsplit without a separator has no limit here");
    return split_at_space(text, most);
  }
  if (separator->string() == nullptr) refuse("split needs a string");
  return from_end ? split_at_from_end(text, *separator->string(), most)
                  : split_at(text, *separator->string(), most);
}

std::string capitalized(std::string text) {
  for (std::size_t i = 0; i < text.size(); ++i) text[i] = i == 0 ? upper(text[i]) : lower(text[i]);
  return text;
}

std::string titled(std::string text) {
  bool inside = false;
  for (char& c : text) {
    c = inside ? lower(c) : upper(c);
    inside = is_letter(c);
  }
  return text;
}

/// A string, or any of a list of strings.
bool has_affix(const std::string& text, const Arguments& arguments, bool at_end) {
  const Value* affix = arguments.get(0, "");
  if (affix == nullptr) refuse("startswith and endswith need a string");
  const List options = affix->list() != nullptr ? *affix->list() : List{*affix};
  return std::any_of(options.begin(), options.end(), [&](const Value& option) {
    if (option.string() == nullptr) refuse("startswith and endswith need a string");
    return at_end ? text.ends_with(*option.string()) : text.starts_with(*option.string());
  });
}

bool all_of_text(const std::string& text, int (*is)(int)) {
  return !text.empty() && std::all_of(text.begin(), text.end(), [is](char c) {
    return is(static_cast<unsigned char>(c)) != 0;
  });
}

Value joined(const std::string& separator, const Arguments& arguments) {
  const Value* items = arguments.get(0, "");
  const auto list = items != nullptr ? iterate(*items) : std::nullopt;
  if (!list) refuse("join needs a list");
  std::string out;
  for (std::size_t i = 0; i < list->size(); ++i) out += (i > 0 ? separator : "") + (*list)[i].text();
  return out;
}

std::optional<Value> shape_method(const std::string& text, std::string_view name,
                                  const Arguments& arguments) {
  if (name == "upper" || name == "lower") {
    std::string out = text;
    std::transform(out.begin(), out.end(), out.begin(), name == "upper" ? upper : lower);
    return out;
  }
  if (name == "capitalize") return capitalized(text);
  if (name == "title") return titled(text);
  if (name == "strip" || name == "lstrip" || name == "rstrip") {
    const Value* set = arguments.get(0, "chars");
    const bool given = set != nullptr && set->string() != nullptr;
    const int which = name == "strip" ? 0 : (name == "lstrip" ? -1 : 1);
    return stripped(text, given ? std::string_view(*set->string()) : kWhiteSpace, which);
  }
  if (name == "replace") {
    const Value* count = arguments.get(2, "count");
    const std::int64_t most = count != nullptr && count->is_integer() ? count->integer() : -1;
    return replaced(text, text_argument(arguments, 0, name), text_argument(arguments, 1, name),
                    most);
  }
  return std::nullopt;
}

std::optional<Value> string_method(const std::string& text, std::string_view name,
                                   const Arguments& arguments) {
  if (auto shaped = shape_method(text, name, arguments)) return shaped;
  if (name == "split" || name == "rsplit") return split(text, arguments, name == "rsplit");
  if (name == "splitlines") {
    List lines = split_at(text, "\n", -1);
    if (lines.back().string()->empty()) lines.pop_back();
    return lines;
  }
  if (name == "join") return joined(text, arguments);
  if (name == "startswith") return has_affix(text, arguments, false);
  if (name == "endswith") return has_affix(text, arguments, true);
  if (name == "find") {
    // Counted in characters, as everything in Python.
    const std::size_t at = text.find(text_argument(arguments, 0, name));
    if (at == std::string::npos) return std::int64_t{-1};
    return static_cast<std::int64_t>(characters(std::string_view(text).substr(0, at)).size());
  }
  if (name == "count")
    return static_cast<std::int64_t>(split_at(text, text_argument(arguments, 0, name), -1).size()) -
           1;
  if (name == "isdigit") return all_of_text(text, std::isdigit);
  if (name == "isalpha") return all_of_text(text, std::isalpha);
  if (name == "isspace") return all_of_text(text, std::isspace);
  return std::nullopt;
}

std::optional<Value> dict_method(const Dict& dict, std::string_view name,
                                 const Arguments& arguments) {
  if (name == "get") {
    const Value* key = arguments.get(0, "");
    if (key == nullptr) refuse("get needs a key");
    const Value* value = key->string() != nullptr ? dict.find(*key->string()) : nullptr;
    const Value* fallback = arguments.get(1, "default");
    return value != nullptr ? *value : (fallback != nullptr ? *fallback : Value::none());
  }
  if (name != "items" && name != "keys" && name != "values") return std::nullopt;
  List list;
  for (const auto& [key, value] : dict.items) {
    if (name == "keys") list.emplace_back(key);
    if (name == "values") list.push_back(value);
    if (name == "items") list.emplace_back(List{Value(key), value});
  }
  return list;
}

std::optional<Value> list_method(const List& list, std::string_view name,
                                 const Arguments& arguments) {
  const Value* item = arguments.get(0, "");
  if ((name != "index" && name != "count") || item == nullptr) return std::nullopt;
  const auto is_item = [&](const Value& other) { return equal(other, *item); };
  if (name == "count") return std::int64_t{std::count_if(list.begin(), list.end(), is_item)};
  const auto found = std::find_if(list.begin(), list.end(), is_item);
  if (found == list.end()) refuse("{} is not in the list", item->repr());
  return std::int64_t{found - list.begin()};
}

}  // namespace

std::string stripped(std::string_view text, std::string_view characters, int which) {
  if (which <= 0) text.remove_prefix(std::min(text.find_first_not_of(characters), text.size()));
  if (which >= 0) text = text.substr(0, text.find_last_not_of(characters) + 1);
  return std::string(text);
}

Value call_method(const Value& object, std::string_view name, const Arguments& arguments) {
  std::optional<Value> result;
  if (const auto* text = object.string()) result = string_method(*text, name, arguments);
  if (const Dict* dict = object.dict()) result = dict_method(*dict, name, arguments);
  if (const List* list = object.list()) result = list_method(*list, name, arguments);
  if (result) return *result;
  refuse("a {} has no method {} here", object.type_name(), name);
}

Value get_member(const Value& object, std::string_view name) {
  const Value* found = nullptr;
  if (const Dict* dict = object.dict()) found = dict->find(name);
  if (const auto* space = object.as_namespace()) found = space->members.find(name);
  if (found != nullptr) return *found;
  if (object.is_undefined()) refuse("{} of an undefined value", name);
  return Value::undefined(std::string(name));
}

Value get_item(const Value& object, const Value& index) {
  if (index.string() != nullptr) return get_member(object, *index.string());
  if (object.is_undefined()) refuse("an item of an undefined value");
  const bool sequence = object.list() != nullptr || object.string() != nullptr;
  if (!sequence || !index.is_integer()) return Value::undefined(index.text());
  const List letters = object.string() != nullptr ? *iterate(object) : List();
  const List& items = object.string() != nullptr ? letters : *object.list();
  const auto size = static_cast<std::int64_t>(items.size());
  const std::int64_t at = index.integer() < 0 ? index.integer() + size : index.integer();
  if (at < 0 || at >= size) return Value::undefined(index.text());
  return items[static_cast<std::size_t>(at)];
}

}  // namespace cortiq::calib::jinja
