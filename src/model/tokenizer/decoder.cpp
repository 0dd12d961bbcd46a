#include "tokenizer/decoder.hpp"

#include <optional>

#include "tokenizer/byte_characters.hpp"
#include "tokenizer/utf8.hpp"

namespace cortiq::model::tokenizer {
namespace {

constexpr int kMaxDepth = 16;

using Tokens = std::vector<std::string>;

std::string concatenate(const Tokens& tokens, std::string_view separator) {
  std::string result;
  for (std::size_t i = 0; i < tokens.size(); ++i) {
    result.append(i == 0 ? std::string_view() : separator);
    result.append(tokens[i]);
  }
  return result;
}

std::optional<char> try_byte_token(std::string_view token) {
  if (token.size() != 6 || !token.starts_with("<0x") || token[5] != '>') {
    return std::nullopt;
  }
  int value = 0;
  for (const char c : token.substr(3, 2)) {
    const bool digit = c >= '0' && c <= '9';
    const bool letter = (c >= 'a' && c <= 'f') || (c >= 'A' && c <= 'F');
    if (!digit && !letter) {
      return std::nullopt;
    }
    value = value * 16 + (digit ? c - '0' : (c | 0x20) - 'a' + 10);
  }
  return static_cast<char>(value);
}

void erase_all(std::string* text, std::string_view what, std::string_view by) {
  std::string result;
  std::size_t done = 0;
  for (std::size_t at = text->find(what); at != std::string::npos; at = text->find(what, done)) {
    result.append(*text, done, at - done);
    result.append(by);
    done = at + what.size();
  }
  result.append(*text, done);
  *text = std::move(result);
}

struct Apply {
  Tokens tokens;
  PatternScratch& scratch;

  Tokens operator()(const DecodeByteLevel&) {
    std::string bytes;
    for (const std::string& token : tokens) {
      bytes.append(try_bytes_of_characters(token).value_or(token));
    }
    return {copy_valid_utf8(bytes)};
  }

  // A run of byte tokens is text if it is UTF-8 as a whole; else each of its bytes is one U+FFFD.
  Tokens operator()(const DecodeByteFallback&) {
    Tokens result;
    std::string bytes;
    const auto flush = [&] {
      if (valid_utf8_prefix(bytes) == bytes.size()) {
        result.push_back(bytes);
      } else {
        result.insert(result.end(), bytes.size(), std::string(kReplacementCharacter));
      }
      bytes.clear();
    };
    for (std::string& token : tokens) {
      if (const std::optional<char> byte = try_byte_token(token)) {
        bytes.push_back(*byte);
        continue;
      }
      if (!bytes.empty()) {
        flush();
      }
      result.push_back(std::move(token));
    }
    if (!bytes.empty()) {
      flush();
    }
    return result;
  }

  Tokens operator()(const DecodeFuse&) { return {concatenate(tokens, "")}; }

  Tokens operator()(const DecodeReplace& replace) {
    for (std::string& token : tokens) {
      token = replace.pattern.copy_replaced(token, replace.content, scratch);
    }
    return std::move(tokens);
  }

  Tokens operator()(const DecodeStrip& strip) {
    for (std::string& token : tokens) {
      std::string_view rest = token;
      for (std::size_t i = 0; i < strip.start && rest.starts_with(strip.content); ++i) {
        rest.remove_prefix(strip.content.size());
      }
      for (std::size_t i = 0; i < strip.stop && rest.ends_with(strip.content); ++i) {
        rest.remove_suffix(strip.content.size());
      }
      token = std::string(rest);
    }
    return std::move(tokens);
  }

  Tokens operator()(const DecodeMetaspace& space) {
    for (std::size_t i = 0; i < tokens.size(); ++i) {
      erase_all(&tokens[i], space.mark, i == 0 && space.drops_first ? "" : " ");
    }
    return std::move(tokens);
  }
};

}  // namespace

Decoder Decoder::parse(const JsonValue& value) {
  Decoder result;
  if (!value.is_null()) {
    result.present_ = true;
    result.append(value, 0);
  }
  return result;
}

void Decoder::append(const JsonValue& value, int depth) {
  constexpr std::int64_t kMostStripped = 1 << 20;
  const std::string& type = value.type();
  if (type == "Sequence") {
    if (depth == kMaxDepth) {
      value.refuse("sequences are nested too deeply");
    }
    for (const JsonValue& item : value["decoders"].items()) {
      append(item, depth + 1);
    }
  } else if (type == "ByteLevel") {
    steps_.emplace_back(DecodeByteLevel{});
  } else if (type == "ByteFallback") {
    steps_.emplace_back(DecodeByteFallback{});
  } else if (type == "Fuse") {
    steps_.emplace_back(DecodeFuse{});
  } else if (type == "Replace") {
    steps_.emplace_back(DecodeReplace{Pattern::parse(value["pattern"]), value["content"].string()});
  } else if (type == "Strip") {
    const std::string& content = value["content"].string();
    if (content.empty()) {
      value["content"].fail_input("expected one character");
    }
    steps_.emplace_back(
        DecodeStrip{content, static_cast<std::size_t>(value["start"].integer(0, kMostStripped)),
                    static_cast<std::size_t>(value["stop"].integer(0, kMostStripped))});
  } else if (type == "Metaspace") {
    const std::string& mark = value["replacement"].string();
    if (mark.empty()) {
      value["replacement"].fail_input("expected one character");
    }
    const JsonValue scheme = value["prepend_scheme"];
    const bool drops =
        scheme.is_null() ? value["add_prefix_space"].boolean(true) : scheme.string() != "never";
    steps_.emplace_back(DecodeMetaspace{mark, drops});
  } else {
    value.refuse(fmt::format("the decoder '{}' is not supported", type));
  }
}

std::string Decoder::decode(std::vector<std::string> tokens) const {
  if (!present_) {
    return concatenate(tokens, " ");
  }
  PatternScratch scratch;
  for (const Step& step : steps_) {
    tokens = std::visit(Apply{std::move(tokens), scratch}, step);
  }
  return concatenate(tokens, "");
}

}  // namespace cortiq::model::tokenizer
