#include "arch_fields.hpp"

#include <cmath>
#include <utility>

#include "cortiq/support/error.hpp"

namespace cortiq::model {

using cmf::Json;

Fields::Fields(const Json& object, std::string where, std::string prefix)
    : object_(object), where_(std::move(where)), prefix_(std::move(prefix)) {
  if (!object_.is_object()) fail(ErrorKind::kInput, "{}: {} is not an object", where_, prefix_);
}

const Json* Fields::find(std::string_view key) const {
  const auto it = object_.find(std::string(key));
  return it == object_.end() || it->is_null() ? nullptr : &*it;
}

const Json& Fields::need(std::string_view key) const {
  const Json* value = find(key);
  if (value == nullptr) fail(ErrorKind::kInput, "{}: {}.{} is missing", where_, prefix_, key);
  return *value;
}

void Fields::wrong(std::string_view key, const Json& value, std::string_view expected) const {
  std::string text = value.dump(-1, ' ', false, Json::error_handler_t::replace);
  if (text.size() > 40) text = text.substr(0, 40) + "...";
  fail(ErrorKind::kInput, "{}: {}.{} is {}; expected {}", where_, prefix_, key, text, expected);
}

bool Fields::has(std::string_view key) const { return find(key) != nullptr; }

Fields Fields::object(std::string_view key) const {
  return Fields(need(key), where_, fmt::format("{}.{}", prefix_, key));
}

const Json& Fields::array(std::string_view key) const {
  const Json& value = need(key);
  if (!value.is_array()) wrong(key, value, "an array");
  return value;
}

std::string Fields::text(std::string_view key) const {
  const Json& value = need(key);
  if (!value.is_string()) wrong(key, value, "a string");
  return value.get<std::string>();
}

std::string Fields::text_or(std::string_view key, std::string_view fallback) const {
  return has(key) ? text(key) : std::string(fallback);
}

bool Fields::flag_or(std::string_view key, bool fallback) const {
  const Json* value = find(key);
  if (value == nullptr) return fallback;
  if (!value->is_boolean()) wrong(key, *value, "true or false");
  return value->get<bool>();
}

std::int64_t Fields::integer(std::string_view key, std::int64_t low, std::int64_t high) const {
  const Json& value = need(key);
  const std::string expected = fmt::format("an integer from {} to {}", low, high);
  if (!value.is_number_integer()) wrong(key, value, expected);
  const bool huge =
      value.is_number_unsigned() && value.get<std::uint64_t>() > static_cast<std::uint64_t>(high);
  const std::int64_t number = huge ? high : value.get<std::int64_t>();
  if (huge || number < low || number > high) wrong(key, value, expected);
  return number;
}

std::int64_t Fields::integer_or(std::string_view key, std::int64_t fallback, std::int64_t low,
                                std::int64_t high) const {
  return has(key) ? integer(key, low, high) : fallback;
}

double Fields::number(std::string_view key) const {
  const Json& value = need(key);
  if (!value.is_number() || !std::isfinite(value.get<double>()))
    wrong(key, value, "a finite number");
  return value.get<double>();
}

double Fields::number_or(std::string_view key, double fallback) const {
  return has(key) ? number(key) : fallback;
}

double Fields::positive_or(std::string_view key, double fallback) const {
  const double value = number_or(key, fallback);
  if (!(value > 0)) wrong(key, need(key), "a positive number");
  return value;
}

std::optional<double> Fields::optional_positive(std::string_view key) const {
  if (!has(key)) return std::nullopt;
  return positive_or(key, 1);
}

std::vector<double> Fields::numbers(std::string_view key) const {
  std::vector<double> result;
  for (const Json& entry : array(key)) {
    if (!entry.is_number()) wrong(key, entry, "an array of numbers");
    result.push_back(entry.get<double>());
  }
  return result;
}

}  // namespace cortiq::model
