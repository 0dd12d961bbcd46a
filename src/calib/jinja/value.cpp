#include "value.hpp"

#include <algorithm>
#include <charconv>
#include <cmath>

#include "cortiq/support/error.hpp"

namespace cortiq::calib::jinja {
namespace {

std::string quoted(const std::string& text) {
  const bool single = text.find('\'') == std::string::npos || text.find('"') != std::string::npos;
  const char quote = single ? '\'' : '"';
  std::string out(1, quote);
  for (const char c : text) {
    if (c == '\n') {
      out += "\\n";
    } else if (c == '\t') {
      out += "\\t";
    } else if (c == '\r') {
      out += "\\r";
    } else {
      if (c == quote || c == '\\') out += '\\';
      out += c;
    }
  }
  return out + quote;
}

bool equal_lists(const List& a, const List& b) {
  return std::equal(a.begin(), a.end(), b.begin(), b.end(), equal);
}

bool equal_dicts(const Dict& a, const Dict& b) {
  return a.items.size() == b.items.size() &&
         std::all_of(a.items.begin(), a.items.end(), [&](const auto& item) {
           const Value* other = b.find(item.first);
           return other != nullptr && equal(item.second, *other);
         });
}

}  // namespace

const Value* Dict::find(std::string_view key) const {
  const auto found =
      std::find_if(items.begin(), items.end(), [&](const auto& item) { return item.first == key; });
  return found == items.end() ? nullptr : &found->second;
}

void Dict::set(std::string_view key, Value value) {
  for (auto& [name, old] : items) {
    if (name != key) continue;
    old = std::move(value);
    return;
  }
  items.emplace_back(key, std::move(value));
}

const Value* Arguments::get(std::size_t place, std::string_view name) const {
  if (place < positional.size()) return &positional[place];
  for (const auto& [key, value] : keyword) {
    if (key == name) return &value;
  }
  return nullptr;
}

Value Value::none() {
  Value value;
  value.data_ = None{};
  return value;
}

Value Value::undefined(std::string name) {
  Value value;
  value.data_ = Undefined{std::move(name)};
  return value;
}

Value Value::make_namespace(Dict members) {
  Value value;
  value.data_ = std::make_shared<Namespace>(Namespace{std::move(members)});
  return value;
}

Value Value::from_json(const nlohmann::ordered_json& json) {
  if (json.is_null()) return none();
  if (json.is_boolean()) return json.get<bool>();
  if (json.is_number_float() || (json.is_number_unsigned() && json.get<std::uint64_t>() > INT64_MAX))
    return json.get<double>();
  if (json.is_number()) return json.get<std::int64_t>();
  if (json.is_string()) return json.get<std::string>();
  if (json.is_array()) {
    List list;
    for (const auto& item : json) list.push_back(from_json(item));
    return list;
  }
  Dict dict;
  for (const auto& [key, item] : json.items()) dict.set(key, from_json(item));
  return dict;
}

Value::Namespace* Value::as_namespace() const {
  const auto* held = std::get_if<std::shared_ptr<Namespace>>(&data_);
  return held != nullptr ? held->get() : nullptr;
}

std::int64_t Value::integer() const {
  if (const bool* flag = std::get_if<bool>(&data_)) return *flag ? 1 : 0;
  if (const auto* whole = std::get_if<std::int64_t>(&data_)) return *whole;
  return static_cast<std::int64_t>(std::get<double>(data_));
}

double Value::number() const {
  const auto* real = std::get_if<double>(&data_);
  return real != nullptr ? *real : static_cast<double>(integer());
}

bool Value::truth() const {
  if (is_undefined() || is_none()) return false;
  if (is_number()) return number() != 0;
  if (const auto* text = string()) return !text->empty();
  if (const List* items = list()) return !items->empty();
  if (const Dict* members = dict()) return !members->items.empty();
  return true;
}

std::string Value::text() const {
  if (const auto* text = string()) return *text;
  return is_undefined() ? std::string() : repr();
}

std::string Value::repr() const {
  if (is_undefined()) return "Undefined";
  if (is_none()) return "None";
  if (is_bool()) return integer() != 0 ? "True" : "False";
  if (is_integer()) return std::to_string(integer());
  if (is_float()) return float_text(number());
  if (const auto* text = string()) return quoted(*text);
  std::string out;
  const auto separate = [&out](char open) { out += out.empty() ? std::string(1, open) : ", "; };
  if (const List* items = list()) {
    for (const Value& item : *items) {
      separate('[');
      out += item.repr();
    }
    return out.empty() ? "[]" : out + ']';
  }
  if (const Dict* members = dict()) {
    for (const auto& [key, item] : members->items) {
      separate('{');
      out.append(quoted(key)).append(": ").append(item.repr());
    }
    return out.empty() ? "{}" : out + '}';
  }
  return fmt::format("<{}>", type_name());
}

std::string_view Value::type_name() const {
  constexpr std::string_view kNames[] = {"undefined", "none", "boolean", "integer",   "float",
                                         "string",    "list", "dict",    "namespace", "function"};
  return kNames[data_.index()];
}

bool equal(const Value& a, const Value& b) {
  if (a.is_number() && b.is_number()) return a.number() == b.number();
  if (a.string() != nullptr && b.string() != nullptr) return *a.string() == *b.string();
  if (a.list() != nullptr && b.list() != nullptr) return equal_lists(*a.list(), *b.list());
  if (a.dict() != nullptr && b.dict() != nullptr) return equal_dicts(*a.dict(), *b.dict());
  return (a.is_none() && b.is_none()) || (a.is_undefined() && b.is_undefined());
}

std::optional<bool> less(const Value& a, const Value& b) {
  if (a.is_number() && b.is_number()) return a.number() < b.number();
  if (a.string() != nullptr && b.string() != nullptr) return *a.string() < *b.string();
  if (a.list() == nullptr || b.list() == nullptr) return std::nullopt;
  const List& x = *a.list();
  const List& y = *b.list();
  for (std::size_t i = 0; i < std::min(x.size(), y.size()); ++i) {
    if (!equal(x[i], y[i])) return less(x[i], y[i]);
  }
  return x.size() < y.size();
}

std::optional<bool> contains(const Value& container, const Value& item) {
  if (const auto* text = container.string()) {
    if (item.string() == nullptr) return std::nullopt;
    return text->find(*item.string()) != std::string::npos;
  }
  if (const List* items = container.list()) {
    return std::any_of(items->begin(), items->end(),
                       [&](const Value& other) { return equal(item, other); });
  }
  if (const Dict* members = container.dict())
    return item.string() != nullptr && members->find(*item.string()) != nullptr;
  if (container.is_undefined()) return false;
  return std::nullopt;
}

std::optional<List> iterate(const Value& value) {
  if (const List* items = value.list()) return *items;
  List result;
  if (value.is_undefined()) return result;
  if (const Dict* members = value.dict()) {
    for (const auto& [key, item] : members->items) result.emplace_back(key);
    return result;
  }
  if (const auto* text = value.string()) {
    for (std::string& c : characters(*text)) result.emplace_back(std::move(c));
    return result;
  }
  return std::nullopt;
}

std::vector<std::string> characters(std::string_view text) {
  std::vector<std::string> result;
  for (const char c : text) {
    const bool continues = (static_cast<unsigned char>(c) & 0xC0) == 0x80;
    if (continues && !result.empty()) {
      result.back() += c;
    } else {
      result.emplace_back(1, c);
    }
  }
  return result;
}

std::string float_text(double value) {
  if (std::isnan(value)) return "nan";
  if (std::isinf(value)) return value < 0 ? "-inf" : "inf";
  const double size = std::fabs(value);
  const bool scientific = size != 0 && (size < 1e-4 || size >= 1e16);
  char buffer[400];
  const auto format = scientific ? std::chars_format::scientific : std::chars_format::fixed;
  const auto end = std::to_chars(buffer, buffer + sizeof(buffer), value, format).ptr;
  std::string text(buffer, end);
  if (!scientific && text.find('.') == std::string::npos) text += ".0";
  return text;
}

}  // namespace cortiq::calib::jinja
