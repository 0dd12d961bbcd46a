// json_value.hpp: a JSON value together with its place in the file, so that every refusal names
// file, path and reason.
#pragma once

#include <cstdint>
#include <nlohmann/json.hpp>
#include <string>
#include <string_view>
#include <vector>

#include "cortiq/support/error.hpp"

namespace cortiq::model::tokenizer {

using Json = nlohmann::json;

/// View of one value; the document must outlive it. Every member throws Error{kInput} where the
/// type is wrong.
class JsonValue {
 public:
  JsonValue(const Json& value, std::string place) : value_(&value), place_(std::move(place)) {}

  /// "tokenizer.json: model.vocab"
  [[nodiscard]] const std::string& place() const { return place_; }
  [[nodiscard]] const Json& json() const { return *value_; }
  [[nodiscard]] bool is_null() const { return value_->is_null(); }
  [[nodiscard]] bool is_string() const { return value_->is_string(); }

  /// Member of an object; a missing one reads as null.
  [[nodiscard]] JsonValue operator[](std::string_view key) const;
  /// Elements of an array.
  [[nodiscard]] std::vector<JsonValue> items() const;

  void check_object() const;
  [[nodiscard]] const std::string& string() const;
  /// @param fallback  taken where the value is absent or null
  [[nodiscard]] bool boolean(bool fallback) const;
  [[nodiscard]] std::int64_t integer(std::int64_t low, std::int64_t high) const;
  /// The member "type" of a component.
  [[nodiscard]] const std::string& type() const;

  /// Throws Error{kInput}: "PLACE: DETAIL".
  [[noreturn]] void fail_input(const std::string& detail) const;
  /// Throws Error{kUnsupported} naming the component.
  [[noreturn]] void refuse(const std::string& detail) const;

 private:
  const Json* value_;
  std::string place_;
};

}  // namespace cortiq::model::tokenizer
