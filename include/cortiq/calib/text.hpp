// text.hpp: the text of one calibration file, up to a budget of bytes, and its first tokens
// (calibration.md section 2.1). Plain text and .jsonl are read only as far as the budget asks;
// .json is parsed as a stream, to its end. All text that leaves this file is valid UTF-8. A
// byte-order mark is dropped. Line ends of plain text stay as they are.
#pragma once

#include <cstdint>
#include <filesystem>
#include <functional>
#include <string>
#include <string_view>
#include <vector>

#include "cortiq/calib/chat_template.hpp"
#include "cortiq/model/tokenizer.hpp"

namespace cortiq::calib {

/// Text -> token ids. A model's tokenizer, or a stand-in in tests.
using Encode = std::function<std::vector<model::TokenId>(std::string_view)>;

/// One conversation (a line of .jsonl with messages) -> the text of the model's chat template.
using RenderChat = std::function<ChatText(std::string_view conversation)>;

enum class TextKind { kPlain, kJsonLines, kJson };
/// By the suffix, case-sensitive: .jsonl, .json, anything else is plain text.
[[nodiscard]] TextKind text_kind(const std::filesystem::path& path);

/// How many of something, and where the first ones are.
struct Findings {
  static constexpr std::size_t kMaxNumbers = 10;
  std::int64_t count = 0;
  std::vector<std::int64_t>
      numbers;  ///< 1-based lines (.json: 1-based items) of the first kMaxNumbers
  void add(std::int64_t number);
};

struct Text {
  std::string text;
  bool exhausted = false;  ///< the file holds no more text
  Findings
      skipped;  ///< lines or items without text: not JSON, or neither a string nor {"text": string}
  std::int64_t blank_lines = 0;  ///< .jsonl only
  Findings refused;     ///< .jsonl only: conversations that the chat template does not take
  std::string refusal;  ///< why the first of them
  Findings invalid;  ///< sequences that are no UTF-8 (plain text), each replaced by U+FFFD
};

/// First part of the file's text.
///   plain:  budget bytes, cut behind the last newline of the final 4096 bytes, else before the
///   last character
///   .jsonl: text + newline per line, or a conversation (an array of messages, or an object with
///   "messages") as the chat template renders it; until the budget is reached
///   .json:  an array; strings and the strings of nested arrays, each + newline; stops behind the
///   item that reaches it
/// Throws Error{kIo}; Error{kInput} for UTF-16 and for a .json file that is no JSON;
/// Error{kUnsupported} for a conversation without a chat template.
[[nodiscard]] Text read_text(const std::filesystem::path& path, std::uint64_t budget_bytes,
                             const RenderChat& chat = {});
/// The plain-text rule on text in memory.
[[nodiscard]] Text cut_text(std::string_view text, std::uint64_t budget_bytes);

struct SourceTokens {
  std::vector<model::TokenId> ids;  ///< at most `want`
  Text text;                        ///< what was read for them
};
/// The first `want` tokens. Reads max(8*want, 4096) bytes, and twice as many as long as the text
/// goes on and gave fewer than want + 64 tokens (a cut may change the last ones). want 0 reads
/// nothing.
[[nodiscard]] SourceTokens read_tokens(const std::filesystem::path& path, std::int64_t want,
                                       const Encode& encode, const RenderChat& chat = {});
/// The same from text in memory.
[[nodiscard]] SourceTokens read_tokens(std::string_view text, std::int64_t want,
                                       const Encode& encode);

}  // namespace cortiq::calib
