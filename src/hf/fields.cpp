#include "fields.hpp"

#include <cmath>

#include "cortiq/hf/config.hpp"

namespace cortiq::hf {

using cmf::Json;

namespace {
constexpr int kMaxDepth = 64;
}  // namespace

const Json* Fields::find(std::string_view key) const {
  const auto found = object_->find(std::string(key));
  return found == object_->end() || found->is_null() ? nullptr : &*found;
}

void Fields::wrong(std::string_view key, std::string_view expected) const {
  std::string value = find(key) == nullptr
                          ? "missing"
                          : find(key)->dump(-1, ' ', true, Json::error_handler_t::replace);
  if (value.size() > 80) value = value.substr(0, 80) + "…";
  fail(ErrorKind::kInput, "{}: key {} is {}, expected {}; check that the file belongs to the model",
       where_, key, value, expected);
}

std::optional<std::int64_t> Fields::integer(std::initializer_list<std::string_view> keys) const {
  constexpr double kLimit = 4294967296.0;
  for (const std::string_view key : keys) {
    const Json* value = find(key);
    if (value == nullptr) continue;
    if (!value->is_number()) wrong(key, "a non-negative integer");
    const double number = value->get<double>();
    if (!(number >= 0 && number < kLimit) || number != std::floor(number))
      wrong(key, "a non-negative integer");
    return static_cast<std::int64_t>(number);
  }
  return std::nullopt;
}

std::optional<double> Fields::number(std::initializer_list<std::string_view> keys) const {
  for (const std::string_view key : keys) {
    const Json* value = find(key);
    if (value == nullptr) continue;
    if (!value->is_number() || !std::isfinite(value->get<double>())) wrong(key, "a number");
    return value->get<double>();
  }
  return std::nullopt;
}

std::optional<bool> Fields::boolean(std::initializer_list<std::string_view> keys) const {
  for (const std::string_view key : keys) {
    const Json* value = find(key);
    if (value == nullptr) continue;
    if (!value->is_boolean()) wrong(key, "true or false");
    return value->get<bool>();
  }
  return std::nullopt;
}

std::optional<std::string> Fields::text(std::initializer_list<std::string_view> keys) const {
  for (const std::string_view key : keys) {
    const Json* value = find(key);
    if (value == nullptr) continue;
    if (!value->is_string()) wrong(key, "a string");
    return value->get<std::string>();
  }
  return std::nullopt;
}

std::int64_t Fields::required(std::string_view key) const {
  const auto value = integer({key});
  if (!value || *value == 0) wrong(key, "a positive integer");
  return *value;
}

const Json* Fields::object(std::string_view key) const {
  const Json* value = find(key);
  if (value != nullptr && !value->is_object()) wrong(key, "an object");
  return value;
}

Json parse_object(std::string_view text, std::string_view where) {
  try {
    // Deep nesting would overflow the stack where the document is written back.
    const auto check_depth = [&](int depth, Json::parse_event_t, Json&) {
      if (depth > kMaxDepth)
        fail(ErrorKind::kInput, "{}: is nested more than {} levels deep; check the file", where,
             kMaxDepth);
      return true;
    };
    Json json = Json::parse(text.begin(), text.end(), check_depth);
    if (!json.is_object())
      fail(ErrorKind::kInput, "{}: is not a JSON object; check the file", where);
    return json;
  } catch (const Json::parse_error& error) {
    fail(ErrorKind::kInput,
         "{}: is not valid JSON at byte {}; the file is damaged, download it again", where,
         error.byte);
  } catch (const Json::exception& error) {
    fail(ErrorKind::kInput, "{}: is not usable JSON: {}; the file is damaged, download it again",
         where, error.what());
  }
}

}  // namespace cortiq::hf
