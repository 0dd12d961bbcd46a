#include "cortiq/calib/part.hpp"

#include <charconv>
#include <optional>

#include "cortiq/support/error.hpp"

namespace cortiq::calib {
namespace {

std::optional<std::int64_t> try_parse_count(std::string_view text) {
  std::int64_t value = 0;
  const auto [end, code] = std::from_chars(text.data(), text.data() + text.size(), value);
  if (code != std::errc{} || end != text.data() + text.size() || value < 1) return std::nullopt;
  return value;
}

}  // namespace

Part parse_part(std::string_view text) {
  constexpr std::int64_t kMostParts = std::int64_t{1} << 20;
  const std::size_t slash = text.find('/');
  if (slash != std::string_view::npos) {
    const auto number = try_parse_count(text.substr(0, slash));
    const auto count = try_parse_count(text.substr(slash + 1));
    if (number && count && *number <= *count && *count <= kMostParts) return {*number, *count};
  }
  fail(ErrorKind::kUsage, "--part {}: expected i/N with 1 <= i <= N, such as 2/4", text);
}

model::Windows windows_of_part(const model::Windows& windows, const Part& part) {
  const std::int64_t count = windows.count();
  if (count < part.count) {
    fail(ErrorKind::kRefused,
         "--part {}/{}: the calibration text has only {} windows; use at most as many parts, a "
         "smaller --window or more text",
         part.number, part.count, count);
  }
  model::Windows chosen;
  for (std::int64_t i = count * (part.number - 1) / part.count;
       i < count * part.number / part.count; ++i) {
    chosen.add(windows.window(i));
  }
  return chosen;
}

}  // namespace cortiq::calib
