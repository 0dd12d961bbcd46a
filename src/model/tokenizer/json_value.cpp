#include "tokenizer/json_value.hpp"

namespace cortiq::model::tokenizer {
namespace {

const Json& null_json() {
  static const Json null;
  return null;
}

}  // namespace

JsonValue JsonValue::operator[](std::string_view key) const {
  check_object();
  std::string place = fmt::format("{}{}{}", place_, place_.ends_with(':') ? " " : ".", key);
  const auto found = value_->find(key);
  return {found == value_->end() ? null_json() : *found, std::move(place)};
}

std::vector<JsonValue> JsonValue::items() const {
  if (!value_->is_array()) {
    fail_input(fmt::format("expected an array, found {}", value_->type_name()));
  }
  std::vector<JsonValue> result;
  result.reserve(value_->size());
  for (const Json& item : *value_) {
    result.emplace_back(item, fmt::format("{}[{}]", place_, result.size()));
  }
  return result;
}

void JsonValue::check_object() const {
  if (!value_->is_object()) {
    fail_input(fmt::format("expected an object, found {}", value_->type_name()));
  }
}

const std::string& JsonValue::string() const {
  if (!value_->is_string()) {
    fail_input(fmt::format("expected a string, found {}", value_->type_name()));
  }
  return value_->get_ref<const std::string&>();
}

bool JsonValue::boolean(bool fallback) const {
  if (value_->is_null()) {
    return fallback;
  }
  if (!value_->is_boolean()) {
    fail_input(fmt::format("expected true or false, found {}", value_->type_name()));
  }
  return value_->get<bool>();
}

std::int64_t JsonValue::integer(std::int64_t low, std::int64_t high) const {
  if (!value_->is_number_integer()) {
    fail_input(fmt::format("expected an integer, found {}", value_->type_name()));
  }
  // A number above the range of int64 is stored as unsigned; it is out of range for every caller.
  const bool huge = value_->is_number_unsigned() &&
                    value_->get<std::uint64_t>() > static_cast<std::uint64_t>(INT64_MAX);
  const std::int64_t number = huge ? INT64_MAX : value_->get<std::int64_t>();
  if (number < low || number > high) {
    fail_input(fmt::format("{} is out of range, expected {} to {}", value_->dump(), low, high));
  }
  return number;
}

const std::string& JsonValue::type() const { return (*this)["type"].string(); }

void JsonValue::fail_input(const std::string& detail) const {
  fail(ErrorKind::kInput, "{}{} {}; the file is damaged or not a tokenizer.json", place_,
       place_.ends_with(':') ? "" : ":", detail);
}

void JsonValue::refuse(const std::string& detail) const {
  fail(ErrorKind::kUnsupported, "{}{} {}; this tokenizer cannot be used here", place_,
       place_.ends_with(':') ? "" : ":", detail);
}

}  // namespace cortiq::model::tokenizer
