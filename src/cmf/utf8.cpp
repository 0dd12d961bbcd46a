#include "utf8.hpp"

#include <cstddef>

namespace cortiq::cmf {
namespace {

/// Length of the sequence that `lead` starts and the range of its second byte; length 0 = not a
/// lead byte.
struct Lead {
  std::size_t length;
  unsigned char low;
  unsigned char high;
};

Lead lead_of(unsigned char lead) noexcept {
  if (lead < 0x80) return {1, 0, 0};
  if (lead < 0xC2) return {0, 0, 0};
  if (lead < 0xE0) return {2, 0x80, 0xBF};
  if (lead == 0xE0) return {3, 0xA0, 0xBF};  // shorter forms exist below
  if (lead == 0xED) return {3, 0x80, 0x9F};  // surrogates above
  if (lead < 0xF0) return {3, 0x80, 0xBF};
  if (lead == 0xF0) return {4, 0x90, 0xBF};
  if (lead < 0xF4) return {4, 0x80, 0xBF};
  if (lead == 0xF4) return {4, 0x80, 0x8F};
  return {0, 0, 0};
}

}  // namespace

bool is_utf8(std::string_view text) noexcept {
  const auto at = [text](std::size_t i) { return static_cast<unsigned char>(text[i]); };
  for (std::size_t i = 0; i < text.size();) {
    const Lead lead = lead_of(at(i));
    if (lead.length == 0 || lead.length > text.size() - i) return false;
    if (lead.length > 1 && (at(i + 1) < lead.low || at(i + 1) > lead.high)) return false;
    for (std::size_t k = 2; k < lead.length; ++k) {
      if (at(i + k) < 0x80 || at(i + k) > 0xBF) return false;
    }
    i += lead.length;
  }
  return true;
}

}  // namespace cortiq::cmf
