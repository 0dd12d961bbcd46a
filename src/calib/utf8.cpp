#include "utf8.hpp"

#include <algorithm>

namespace cortiq::calib {
namespace {

struct Lead {
  std::size_t length;       // of the whole character; 0 = no lead byte
  unsigned char low, high;  // range of the second byte
};

Lead lead_of(unsigned char byte) {
  if (byte < 0x80) return {1, 0, 0};
  if (byte < 0xC2) return {0, 0, 0};
  if (byte < 0xE0) return {2, 0x80, 0xBF};
  if (byte == 0xE0) return {3, 0xA0, 0xBF};
  if (byte == 0xED) return {3, 0x80, 0x9F};
  if (byte < 0xF0) return {3, 0x80, 0xBF};
  if (byte == 0xF0) return {4, 0x90, 0xBF};
  if (byte < 0xF4) return {4, 0x80, 0xBF};
  if (byte == 0xF4) return {4, 0x80, 0x8F};
  return {0, 0, 0};
}

}  // namespace

std::size_t utf8_length(std::string_view text, std::size_t position, std::size_t* bad) {
  const Lead lead = lead_of(static_cast<unsigned char>(text[position]));
  *bad = 1;
  if (lead.length == 0) return 0;
  for (std::size_t i = 1; i < lead.length; ++i) {
    *bad = i;
    if (position + i >= text.size()) return 0;
    const auto byte = static_cast<unsigned char>(text[position + i]);
    const unsigned char low = i == 1 ? lead.low : 0x80;
    const unsigned char high = i == 1 ? lead.high : 0xBF;
    if (byte < low || byte > high) return 0;
  }
  return lead.length;
}

bool is_utf8(std::string_view text) {
  std::size_t bad = 0;
  for (std::size_t i = 0; i < text.size();) {
    const std::size_t length = utf8_length(text, i, &bad);
    if (length == 0) return false;
    i += length;
  }
  return true;
}

std::string repair_utf8(std::string_view text, Findings& invalid) {
  std::string repaired;
  repaired.reserve(text.size());
  std::int64_t line = 1;
  std::size_t counted = 0;  // newlines before this position are in `line`
  std::size_t copied = 0;
  for (std::size_t i = 0; i < text.size();) {
    std::size_t bad = 0;
    const std::size_t length = utf8_length(text, i, &bad);
    if (length > 0) {
      i += length;
      continue;
    }
    repaired.append(text, copied, i - copied).append("\xEF\xBF\xBD");
    line += std::count(text.data() + counted, text.data() + i, '\n');
    counted = i;
    invalid.add(line);
    i += bad;
    copied = i;
  }
  return repaired.append(text, copied);
}

}  // namespace cortiq::calib
