#include "tokenizer/byte_characters.hpp"

#include <array>

#include "tokenizer/utf8.hpp"

namespace cortiq::model::tokenizer {
namespace {

constexpr char32_t kFirstSubstitute = 0x100;
constexpr std::size_t kSubstitutes = 68;

constexpr bool stands_for_itself(unsigned byte) {
  return (byte >= 0x21 && byte <= 0x7E) || (byte >= 0xA1 && byte <= 0xAC) || byte >= 0xAE;
}

struct Tables {
  std::array<char32_t, 256> character{};
  std::array<unsigned char, kSubstitutes> substituted{};
};

constexpr Tables make_tables() {
  Tables tables;
  std::size_t count = 0;
  for (unsigned byte = 0; byte < 256; ++byte) {
    if (stands_for_itself(byte)) {
      tables.character[byte] = byte;
    } else {
      tables.substituted[count] = static_cast<unsigned char>(byte);
      tables.character[byte] = kFirstSubstitute + static_cast<char32_t>(count);
      ++count;
    }
  }
  return tables;
}

constexpr Tables kTables = make_tables();

}  // namespace

char32_t byte_character(unsigned char byte) { return kTables.character[byte]; }

std::string copy_byte_characters(std::string_view bytes) {
  std::string result;
  result.reserve(bytes.size() + bytes.size() / 2);
  for (const char c : bytes) {
    append_char(&result, byte_character(static_cast<unsigned char>(c)));
  }
  return result;
}

std::optional<std::string> try_bytes_of_characters(std::string_view text) {
  std::string result;
  result.reserve(text.size());
  for (std::size_t i = 0; i < text.size();) {
    const char32_t value = next_char(text, &i);
    if (value < kFirstSubstitute && stands_for_itself(static_cast<unsigned>(value))) {
      result.push_back(static_cast<char>(value));
    } else if (value >= kFirstSubstitute && value < kFirstSubstitute + kSubstitutes) {
      result.push_back(static_cast<char>(kTables.substituted[value - kFirstSubstitute]));
    } else {
      return std::nullopt;
    }
  }
  return result;
}

}  // namespace cortiq::model::tokenizer
