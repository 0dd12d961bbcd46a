// utf8.hpp: code points in and out of UTF-8. All text inside the tokenizer is valid UTF-8:
// make_valid_utf8 stands at the entrance, so next_char need not check.
#pragma once

#include <cstddef>
#include <cstdint>
#include <string>
#include <string_view>

namespace cortiq::model::tokenizer {

/// U+FFFD in UTF-8.
inline constexpr std::string_view kReplacementCharacter = "\xEF\xBF\xBD";

/// Length of the longest prefix of `text` that is well-formed UTF-8 (Unicode table 3-7).
[[nodiscard]] std::size_t valid_utf8_prefix(std::string_view text);

/// Copy of `text` in which each maximal ill-formed subpart became U+FFFD (Unicode chapter 3,
/// "U+FFFD Substitution of Maximal Subparts").
[[nodiscard]] std::string copy_valid_utf8(std::string_view text);

/// Bytes of the character that begins with this byte, 1 to 4.
[[nodiscard]] inline std::size_t char_size(char first) {
  const auto byte = static_cast<unsigned char>(first);
  return byte < 0x80 ? 1 : byte < 0xE0 ? 2 : byte < 0xF0 ? 3 : 4;
}

/// Reads the code point at `*offset` of valid text and moves the offset behind it.
[[nodiscard]] inline char32_t next_char(std::string_view text, std::size_t* offset) {
  const auto at = [&](std::size_t i) {
    return static_cast<char32_t>(static_cast<unsigned char>(text[*offset + i]));
  };
  const char32_t first = at(0);
  char32_t value = first;
  std::size_t size = 1;
  if (first >= 0xF0) {
    value =
        ((first & 0x07) << 18) | ((at(1) & 0x3F) << 12) | ((at(2) & 0x3F) << 6) | (at(3) & 0x3F);
    size = 4;
  } else if (first >= 0xE0) {
    value = ((first & 0x0F) << 12) | ((at(1) & 0x3F) << 6) | (at(2) & 0x3F);
    size = 3;
  } else if (first >= 0x80) {
    value = ((first & 0x1F) << 6) | (at(1) & 0x3F);
    size = 2;
  }
  *offset += size;
  return value;
}

/// The last code point of non-empty valid text.
[[nodiscard]] char32_t last_char(std::string_view text);

void append_char(std::string* text, char32_t value);

/// Unicode property White_Space.
[[nodiscard]] bool is_white_space(char32_t value);

/// Bytes of white space at the front and at the end.
[[nodiscard]] std::size_t leading_white_space(std::string_view text);
[[nodiscard]] std::size_t trailing_white_space(std::string_view text);

}  // namespace cortiq::model::tokenizer
