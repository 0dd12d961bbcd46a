// arch_fields.hpp: typed access to the keys of the arch record; every failure names the key and
// what was expected.
#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "cortiq/cmf/header.hpp"

namespace cortiq::model {

/// A JSON object and where it stands. A key that is null counts as absent. All failures are
/// Error{kInput}.
class Fields {
 public:
  Fields(const cmf::Json& object, std::string where, std::string prefix = "arch");

  [[nodiscard]] const std::string& where() const noexcept { return where_; }
  [[nodiscard]] bool has(std::string_view key) const;
  [[nodiscard]] Fields object(std::string_view key) const;
  [[nodiscard]] const cmf::Json& array(std::string_view key) const;
  [[nodiscard]] std::string text(std::string_view key) const;
  [[nodiscard]] std::string text_or(std::string_view key, std::string_view fallback) const;
  [[nodiscard]] bool flag_or(std::string_view key, bool fallback) const;
  /// Integer in [low, high].
  [[nodiscard]] std::int64_t integer(std::string_view key, std::int64_t low,
                                     std::int64_t high) const;
  [[nodiscard]] std::int64_t integer_or(std::string_view key, std::int64_t fallback,
                                        std::int64_t low, std::int64_t high) const;
  /// Finite number.
  [[nodiscard]] double number(std::string_view key) const;
  [[nodiscard]] double number_or(std::string_view key, double fallback) const;
  [[nodiscard]] double positive_or(std::string_view key, double fallback) const;
  [[nodiscard]] std::optional<double> optional_positive(std::string_view key) const;
  [[nodiscard]] std::vector<double> numbers(std::string_view key) const;

 private:
  [[nodiscard]] const cmf::Json* find(std::string_view key) const;
  [[nodiscard]] const cmf::Json& need(std::string_view key) const;
  [[noreturn]] void wrong(std::string_view key, const cmf::Json& value,
                          std::string_view expected) const;

  const cmf::Json& object_;
  std::string where_;
  std::string prefix_;
};

}  // namespace cortiq::model
