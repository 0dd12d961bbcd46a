// tokenizer.hpp: text <-> token ids from the bytes of a tokenizer.json (calibration.md section 2.3).
// Byte-level BPE and SentencePiece-style BPE; encoding is linear in the text. A component that is not handled
// (a Unigram model, an unknown pre-tokenizer) is refused by name.
#pragma once

#include <cstdint>
#include <memory>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "cortiq/support/bytes.hpp"

namespace cortiq::model {

using TokenId = std::int32_t;

class Tokenizer {
 public:
  /// @param json   bytes of tokenizer.json   @param where  file name for messages
  /// Throws Error{kInput} or Error{kUnsupported}.
  [[nodiscard]] static Tokenizer parse(ByteSpan json, std::string_view where);
  ~Tokenizer();
  Tokenizer(Tokenizer&&) noexcept;

  /// Added tokens spelled in the text are recognised; nothing (BOS, EOS) is inserted. Invalid UTF-8 becomes U+FFFD.
  /// Thread safe.
  [[nodiscard]] std::vector<TokenId> encode(std::string_view text) const;
  /// Special tokens kept; bytes that are no UTF-8 become U+FFFD.
  [[nodiscard]] std::string decode(std::span<const TokenId> ids) const;
  /// One more than the greatest id.
  [[nodiscard]] std::int64_t size() const;
  /// The token the template puts in front (post-processor), if any; -1 otherwise.
  [[nodiscard]] TokenId bos() const;

 private:
  struct State;
  explicit Tokenizer(std::unique_ptr<const State> state);
  std::unique_ptr<const State> state_;
};

}  // namespace cortiq::model
