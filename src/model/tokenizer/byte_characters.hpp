// byte_characters.hpp: GPT-2's map between the 256 byte values and 256 printable characters.
// Printable ASCII and Latin-1 stand for themselves, the other 68 bytes for U+0100, U+0101, … in
// order of their value.
#pragma once

#include <optional>
#include <string>
#include <string_view>

namespace cortiq::model::tokenizer {

/// The character of a byte.
[[nodiscard]] char32_t byte_character(unsigned char byte);

/// Every byte of `bytes` as its character, in UTF-8.
[[nodiscard]] std::string copy_byte_characters(std::string_view bytes);

/// The inverse; nullopt where a character stands for no byte.
[[nodiscard]] std::optional<std::string> try_bytes_of_characters(std::string_view text);

}  // namespace cortiq::model::tokenizer
