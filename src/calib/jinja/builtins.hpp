// builtins.hpp: the filters, tests, methods and functions that templates find there.
#pragma once

#include <string_view>

#include "value.hpp"

namespace cortiq::calib::jinja {

[[nodiscard]] bool is_filter(std::string_view name);
[[nodiscard]] Value apply_filter(std::string_view name, const Value& input,
                                 const Arguments& arguments);

[[nodiscard]] bool is_test(std::string_view name);
[[nodiscard]] bool apply_test(std::string_view name, const Value& input,
                              const Arguments& arguments);

/// object.name(arguments) of a string, list or dict.
[[nodiscard]] Value call_method(const Value& object, std::string_view name,
                                const Arguments& arguments);

/// namespace, range, dict, raise_exception, and strftime_now with a fixed date: what a run does
/// must not depend on the day.
[[nodiscard]] Dict global_functions();

/// object.name or object[name]: a member of a dict or namespace; undefined where there is none.
[[nodiscard]] Value get_member(const Value& object, std::string_view name);
/// object[index] with Python's negative indexes.
[[nodiscard]] Value get_item(const Value& object, const Value& index);

/// Python's strip: which = -1 left, 1 right, 0 both.
[[nodiscard]] std::string stripped(std::string_view text, std::string_view characters, int which);
inline constexpr std::string_view kWhiteSpace = " \t\n\r\v\f";

}  // namespace cortiq::calib::jinja
