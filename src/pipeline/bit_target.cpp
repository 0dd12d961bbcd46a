#include "cortiq/pipeline/bit_target.hpp"

#include <charconv>
#include <cmath>
#include <string>

#include "cortiq/support/error.hpp"

namespace cortiq::pipeline {

std::uint64_t parse_size(std::string_view text) {
  double number = 0;
  const auto [end, error] = std::from_chars(text.data(), text.data() + text.size(), number);
  const std::string_view unit(end, static_cast<std::size_t>(text.data() + text.size() - end));
  double factor = 0;
  if (unit.empty() || unit == "B") factor = 1;
  if (unit == "kB" || unit == "KB") factor = 1e3;
  if (unit == "MB") factor = 1e6;
  if (unit == "GB") factor = 1e9;
  if (unit == "KiB") factor = 1024.0;
  if (unit == "MiB") factor = 1024.0 * 1024;
  if (unit == "GiB") factor = 1024.0 * 1024 * 1024;
  const double bytes = number * factor;
  if (error != std::errc{} || !(bytes >= 1) || !(bytes < 1e18)) {
    fail(ErrorKind::kUsage, "--target-size {}: expected a positive number with an optional unit (B, kB, MB, GB, KiB, MiB, GiB)",
         text);
  }
  return static_cast<std::uint64_t>(bytes);
}

}  // namespace cortiq::pipeline
