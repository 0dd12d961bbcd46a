// value.hpp: a value of a chat template: what Jinja takes over from Python, as far as templates of
// chat models use it. Lists, dicts and namespaces are shared by reference; only a namespace changes
// after it was made. Tuples are lists.
#pragma once

#include <cstdint>
#include <functional>
#include <memory>
#include <nlohmann/json.hpp>
#include <optional>
#include <string>
#include <string_view>
#include <utility>
#include <variant>
#include <vector>

namespace cortiq::calib::jinja {

class Value;
using List = std::vector<Value>;

/// Keys are strings, in the order of insertion.
struct Dict {
  std::vector<std::pair<std::string, Value>> items;
  [[nodiscard]] const Value* find(std::string_view key) const;
  void set(std::string_view key, Value value);
};

struct Arguments {
  std::vector<Value> positional;
  std::vector<std::pair<std::string, Value>> keyword;
  /// The argument at this place or of this name; nullptr if it was not given.
  [[nodiscard]] const Value* get(std::size_t place, std::string_view name) const;
};
using Function = std::function<Value(const Arguments&)>;

class Value {
 public:
  struct Undefined {
    std::string name;  ///< for messages
  };
  struct None {};
  struct Namespace {
    Dict members;
  };

  Value() : data_(Undefined{}) {}
  Value(bool value) : data_(value) {}
  Value(std::int64_t value) : data_(value) {}
  Value(double value) : data_(value) {}
  Value(std::string value) : data_(std::move(value)) {}
  Value(const char* value) : data_(std::string(value)) {}
  Value(List list) : data_(std::make_shared<const List>(std::move(list))) {}
  Value(Dict dict) : data_(std::make_shared<const Dict>(std::move(dict))) {}
  Value(Function function) : data_(std::make_shared<const Function>(std::move(function))) {}
  [[nodiscard]] static Value none();
  [[nodiscard]] static Value undefined(std::string name);
  [[nodiscard]] static Value make_namespace(Dict members);
  [[nodiscard]] static Value from_json(const nlohmann::ordered_json& json);

  [[nodiscard]] bool is_undefined() const { return holds<Undefined>(); }
  [[nodiscard]] bool is_none() const { return holds<None>(); }
  [[nodiscard]] bool is_bool() const { return holds<bool>(); }
  /// A bool is an integer too, as in Python.
  [[nodiscard]] bool is_integer() const { return holds<std::int64_t>() || is_bool(); }
  [[nodiscard]] bool is_float() const { return holds<double>(); }
  [[nodiscard]] bool is_number() const { return is_integer() || is_float(); }
  [[nodiscard]] const std::string* string() const { return std::get_if<std::string>(&data_); }
  [[nodiscard]] const List* list() const { return pointer<List>(); }
  [[nodiscard]] const Dict* dict() const { return pointer<Dict>(); }
  [[nodiscard]] const Function* function() const { return pointer<Function>(); }
  [[nodiscard]] Namespace* as_namespace() const;
  /// Of a number.
  [[nodiscard]] std::int64_t integer() const;
  [[nodiscard]] double number() const;

  [[nodiscard]] bool truth() const;
  /// As the template prints it: Python's str(), nothing for an undefined value.
  [[nodiscard]] std::string text() const;
  /// Python's repr().
  [[nodiscard]] std::string repr() const;
  /// For messages: "string", "list" and so on.
  [[nodiscard]] std::string_view type_name() const;

 private:
  using Data = std::variant<Undefined, None, bool, std::int64_t, double, std::string,
                            std::shared_ptr<const List>, std::shared_ptr<const Dict>,
                            std::shared_ptr<Namespace>, std::shared_ptr<const Function>>;
  template <typename T>
  [[nodiscard]] bool holds() const {
    return std::holds_alternative<T>(data_);
  }
  template <typename T>
  [[nodiscard]] const T* pointer() const {
    const auto* held = std::get_if<std::shared_ptr<const T>>(&data_);
    return held != nullptr ? held->get() : nullptr;
  }
  Data data_;
};

[[nodiscard]] bool equal(const Value& a, const Value& b);
/// a < b for two numbers, strings or lists; nullopt for what Python does not order.
[[nodiscard]] std::optional<bool> less(const Value& a, const Value& b);
/// `item in container`; nullopt if it is no container.
[[nodiscard]] std::optional<bool> contains(const Value& container, const Value& item);
/// What a loop runs over: items of a list, keys of a dict, characters of a string, nothing for an
/// undefined value; nullopt for what cannot be iterated.
[[nodiscard]] std::optional<List> iterate(const Value& value);
/// Characters (not bytes) of a string.
[[nodiscard]] std::vector<std::string> characters(std::string_view text);

struct JsonStyle {
  std::optional<std::int64_t> indent;
  bool sort_keys = false;
  bool ensure_ascii = false;
};
/// json.dumps with its own separators.
[[nodiscard]] std::string to_json(const Value& value, const JsonStyle& style);
/// Python's repr() of a float.
[[nodiscard]] std::string float_text(double value);

}  // namespace cortiq::calib::jinja
