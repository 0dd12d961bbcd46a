// pre_tokenizer.hpp: the "pre_tokenizer" of a tokenizer.json (calibration.md section 2.3, step 3):
// cuts a stretch of text into the pieces that the merges may not leave. Each stage cuts the pieces
// of the one before; the pieces stream through the stages one by one, so nothing but the running
// piece is stored. Handled: Split, Digits, Punctuation, Whitespace, WhitespaceSplit, Metaspace,
// ByteLevel, Sequence. Others are refused by name.
#pragma once

#include <string>
#include <string_view>
#include <variant>
#include <vector>

#include "tokenizer/json_value.hpp"
#include "tokenizer/pattern.hpp"

namespace cortiq::model::tokenizer {

/// What becomes of the matches of a split.
enum class SplitBehavior { kIsolated, kRemoved, kMergedWithPrevious, kMergedWithNext, kContiguous };

struct Split {
  Pattern pattern;
  SplitBehavior behavior;
  bool invert;  ///< the text between the matches counts as the matches
};
/// Puts a space in front where none is (ByteLevel's add_prefix_space).
struct PrefixSpace {};
/// Bytes to GPT-2's printable characters.
struct ByteCharacters {};
enum class PrependScheme { kAlways, kFirst, kNever };
/// Spaces to `mark`, and a mark in front.
struct SpaceMark {
  std::string mark;
  PrependScheme scheme;
};

/// Receives the pieces in order. A view is valid during the call only.
class PieceSink {
 public:
  virtual void take_piece(std::string_view piece) = 0;

 protected:
  ~PieceSink() = default;
};

/// Immutable; may be shared by threads.
class PreTokenizer {
 public:
  /// @param value  null: the whole text is one piece
  [[nodiscard]] static PreTokenizer parse(const JsonValue& value);

  /// True if the last stage maps bytes to characters. drop_byte_stage removes it: the caller then
  /// gets raw bytes.
  [[nodiscard]] bool ends_in_bytes() const;
  void drop_byte_stage();

  /// @param at_start  the text begins where the input begins (Metaspace scheme "first")
  void run(std::string_view text, bool at_start, PatternScratch& scratch, PieceSink& sink) const;

 private:
  using Stage = std::variant<Split, PrefixSpace, ByteCharacters, SpaceMark>;
  struct Run;
  void append(const JsonValue& value, int depth);
  void append_byte_level(const JsonValue& value);
  void append_metaspace(const JsonValue& value);
  std::vector<Stage> stages_;
};

}  // namespace cortiq::model::tokenizer
