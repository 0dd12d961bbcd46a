// The functions that a template finds without asking.
#include <ctime>

#include "builtins.hpp"
#include "scope.hpp"

namespace cortiq::calib::jinja {
namespace {

Value make_namespace(const Arguments& arguments) {
  Dict members;
  if (!arguments.positional.empty() && arguments.positional[0].dict() != nullptr)
    members = *arguments.positional[0].dict();
  for (const auto& [name, value] : arguments.keyword) members.set(name, value);
  return Value::make_namespace(std::move(members));
}

Value make_dict(const Arguments& arguments) {
  Dict members;
  if (!arguments.positional.empty() && arguments.positional[0].dict() != nullptr)
    members = *arguments.positional[0].dict();
  for (const auto& [name, value] : arguments.keyword) members.set(name, value);
  return members;
}

Value range(const Arguments& arguments) {
  std::int64_t bounds[3] = {0, 0, 1};
  const std::size_t count = arguments.positional.size();
  if (count < 1 || count > 3) refuse("range takes one to three integers");
  for (std::size_t i = 0; i < count; ++i) {
    if (!arguments.positional[i].is_integer()) refuse("range needs integers");
    bounds[count == 1 ? 1 : i] = arguments.positional[i].integer();
  }
  const auto [begin, end, step] = bounds;
  if (step == 0) refuse("range needs a step that is not 0");
  List list;
  for (std::int64_t i = begin; step > 0 ? i < end : i > end;) {
    if (static_cast<std::int64_t>(list.size()) >= kMostItems) refuse("a range is too long");
    list.emplace_back(i);
    if (__builtin_add_overflow(i, step, &i)) break;
  }
  return list;
}

Value raise_exception(const Arguments& arguments) {
  const Value* message = arguments.get(0, "message");
  refuse("{}", message != nullptr ? message->text() : "the template refuses");
}

/// 26 July 2024, noon.
Value strftime_now(const Arguments& arguments) {
  const Value* format = arguments.get(0, "format");
  if (format == nullptr || format->string() == nullptr) refuse("strftime_now needs a format");
  std::tm time{};
  time.tm_year = 2024 - 1900;
  time.tm_mon = 6;
  time.tm_mday = 26;
  time.tm_hour = 12;
  time.tm_wday = 5;
  time.tm_yday = 207;
  char buffer[512];
  const std::size_t length =
      std::strftime(buffer, sizeof(buffer), format->string()->c_str(), &time);
  return std::string(buffer, length);
}

}  // namespace

Dict global_functions() {
  Dict globals;
  globals.set("namespace", Function(make_namespace));
  globals.set("dict", Function(make_dict));
  globals.set("range", Function(range));
  globals.set("raise_exception", Function(raise_exception));
  globals.set("strftime_now", Function(strftime_now));
  return globals;
}

}  // namespace cortiq::calib::jinja
