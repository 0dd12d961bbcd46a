// fields.hpp: typed access to the keys of a JSON object, with messages that name the file and the
// key. A key whose value is null counts as absent, as it does for the library that wrote the file.
#pragma once

#include <cstdint>
#include <initializer_list>
#include <optional>
#include <string>
#include <string_view>

#include "cortiq/cmf/header.hpp"
#include "cortiq/support/error.hpp"

namespace cortiq::hf {

class Fields {
 public:
  /// Keeps references: `object` must outlive the view.
  Fields(const cmf::Json& object, std::string where) : object_(&object), where_(std::move(where)) {}

  [[nodiscard]] const std::string& where() const noexcept { return where_; }
  /// nullptr if absent or null.
  [[nodiscard]] const cmf::Json* find(std::string_view key) const;
  /// Non-negative integer below 2^32 (a float with an integral value counts). The first key that is
  /// there.
  [[nodiscard]] std::optional<std::int64_t> integer(
      std::initializer_list<std::string_view> keys) const;
  /// Finite number.
  [[nodiscard]] std::optional<double> number(std::initializer_list<std::string_view> keys) const;
  [[nodiscard]] std::optional<bool> boolean(std::initializer_list<std::string_view> keys) const;
  [[nodiscard]] std::optional<std::string> text(std::initializer_list<std::string_view> keys) const;
  /// A positive integer that must be there.
  [[nodiscard]] std::int64_t required(std::string_view key) const;
  /// A sub-object; nullptr if absent. Throws if it is something else.
  [[nodiscard]] const cmf::Json* object(std::string_view key) const;
  [[noreturn]] void wrong(std::string_view key, std::string_view expected) const;

 private:
  const cmf::Json* object_;
  std::string where_;
};

}  // namespace cortiq::hf
