// decoder.hpp: the "decoder" of a tokenizer.json: token texts back to text.
// Handled: ByteLevel, ByteFallback, Replace, Fuse, Strip, Metaspace, Sequence. Others are refused
// by name.
#pragma once

#include <string>
#include <variant>
#include <vector>

#include "tokenizer/json_value.hpp"
#include "tokenizer/pattern.hpp"

namespace cortiq::model::tokenizer {

struct DecodeByteLevel {};
struct DecodeByteFallback {};
struct DecodeFuse {};
struct DecodeReplace {
  Pattern pattern;
  std::string content;
};
struct DecodeStrip {
  std::string content;  // one character
  std::size_t start;
  std::size_t stop;
};
struct DecodeMetaspace {
  std::string mark;
  bool drops_first;
};

/// Immutable; may be shared by threads.
class Decoder {
 public:
  /// @param value  null: the tokens are joined with spaces
  [[nodiscard]] static Decoder parse(const JsonValue& value);
  [[nodiscard]] std::string decode(std::vector<std::string> tokens) const;

 private:
  using Step = std::variant<DecodeByteLevel, DecodeByteFallback, DecodeFuse, DecodeReplace,
                            DecodeStrip, DecodeMetaspace>;
  void append(const JsonValue& value, int depth);
  std::vector<Step> steps_;
  bool present_ = false;
};

}  // namespace cortiq::model::tokenizer
