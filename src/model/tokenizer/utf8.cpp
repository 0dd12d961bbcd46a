#include "tokenizer/utf8.hpp"

#include <algorithm>
#include <cstring>

namespace cortiq::model::tokenizer {
namespace {

unsigned byte_at(std::string_view text, std::size_t i) {
  return i < text.size() ? static_cast<unsigned char>(text[i]) : 0U;
}

struct Sequence {
  std::size_t size;  // bytes of the character, or of the maximal ill-formed subpart
  bool valid;
};

// Unicode table 3-7: the second byte has a narrower range after E0, ED, F0 and F4.
Sequence sequence_at(std::string_view text, std::size_t i) {
  const unsigned first = byte_at(text, i);
  if (first < 0x80) {
    return {1, true};
  }
  if (first < 0xC2 || first > 0xF4) {
    return {1, false};
  }
  const std::size_t size = first < 0xE0 ? 2 : first < 0xF0 ? 3 : 4;
  const unsigned low = first == 0xE0 ? 0xA0U : first == 0xF0 ? 0x90U : 0x80U;
  const unsigned high = first == 0xED ? 0x9FU : first == 0xF4 ? 0x8FU : 0xBFU;
  const unsigned second = byte_at(text, i + 1);
  if (second < low || second > high) {
    return {1, false};
  }
  for (std::size_t k = 2; k < size; ++k) {
    if ((byte_at(text, i + k) & 0xC0U) != 0x80U) {
      return {k, false};
    }
  }
  return {size, true};
}

std::size_t ascii_prefix(std::string_view text, std::size_t i) {
  const std::size_t begin = i;
  for (; i + 8 <= text.size(); i += 8) {
    std::uint64_t word = 0;
    std::memcpy(&word, text.data() + i, 8);
    if ((word & 0x8080808080808080U) != 0) {
      break;
    }
  }
  while (i < text.size() && static_cast<unsigned char>(text[i]) < 0x80) {
    ++i;
  }
  return i - begin;
}

}  // namespace

std::size_t valid_utf8_prefix(std::string_view text) {
  std::size_t i = 0;
  while (true) {
    i += ascii_prefix(text, i);
    if (i == text.size()) {
      return i;
    }
    const Sequence sequence = sequence_at(text, i);
    if (!sequence.valid) {
      return i;
    }
    i += sequence.size;
  }
}

std::string copy_valid_utf8(std::string_view text) {
  std::string result;
  result.reserve(text.size() + text.size() / 8);
  while (true) {
    const std::size_t valid = valid_utf8_prefix(text);
    result.append(text.substr(0, valid));
    text.remove_prefix(valid);
    if (text.empty()) {
      return result;
    }
    result.append(kReplacementCharacter);
    text.remove_prefix(sequence_at(text, 0).size);
  }
}

char32_t last_char(std::string_view text) {
  std::size_t begin = text.size() - 1;
  while (begin > 0 && (static_cast<unsigned char>(text[begin]) & 0xC0U) == 0x80U) {
    --begin;
  }
  return next_char(text, &begin);
}

void append_char(std::string* text, char32_t value) {
  const auto put = [text](char32_t byte) { text->push_back(static_cast<char>(byte)); };
  if (value < 0x80) {
    put(value);
  } else if (value < 0x800) {
    put(0xC0 | (value >> 6));
    put(0x80 | (value & 0x3F));
  } else if (value < 0x10000) {
    put(0xE0 | (value >> 12));
    put(0x80 | ((value >> 6) & 0x3F));
    put(0x80 | (value & 0x3F));
  } else {
    put(0xF0 | (value >> 18));
    put(0x80 | ((value >> 12) & 0x3F));
    put(0x80 | ((value >> 6) & 0x3F));
    put(0x80 | (value & 0x3F));
  }
}

bool is_white_space(char32_t value) {
  return (value >= 0x09 && value <= 0x0D) || value == 0x20 || value == 0x85 || value == 0xA0 ||
         value == 0x1680 || (value >= 0x2000 && value <= 0x200A) || value == 0x2028 ||
         value == 0x2029 || value == 0x202F || value == 0x205F || value == 0x3000;
}

std::size_t leading_white_space(std::string_view text) {
  std::size_t end = 0;
  while (end < text.size()) {
    std::size_t next = end;
    if (!is_white_space(next_char(text, &next))) {
      break;
    }
    end = next;
  }
  return end;
}

std::size_t trailing_white_space(std::string_view text) {
  std::size_t size = text.size();
  while (size > 0) {
    const char32_t last = last_char(text.substr(0, size));
    if (!is_white_space(last)) {
      break;
    }
    size -= last < 0x80 ? 1U : last < 0x800 ? 2U : 3U;
  }
  return text.size() - size;
}

}  // namespace cortiq::model::tokenizer
