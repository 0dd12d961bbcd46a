// bpe.hpp: the "model" of a tokenizer.json, type BPE (calibration.md section 2.3, step 4). A piece
// starts as one symbol per character (or byte); the adjacent pair with the lowest rank, of equals
// the leftmost, is merged until none is left. Cost: n log n for a piece of n characters (heap),
// less for short or repeated pieces.
#pragma once

#include <array>
#include <cstdint>
#include <string>
#include <string_view>
#include <unordered_map>
#include <unordered_set>
#include <vector>

#include "cortiq/model/tokenizer.hpp"
#include "tokenizer/byte_map.hpp"
#include "tokenizer/json_value.hpp"
#include "tokenizer/merge_table.hpp"

namespace cortiq::model::tokenizer {

/// Buffers and piece cache of one encode call.
struct BpeScratch {
  struct Symbol {
    TokenId id;
    std::int32_t previous;
    std::int32_t next;
  };
  struct Candidate {
    std::uint64_t order;  // rank in the upper half, position in the lower
    TokenId id;
  };
  struct Stored {
    std::size_t begin;
    std::size_t size;
  };
  std::vector<TokenId> ids;
  std::vector<Merge> merges;
  std::vector<Symbol> symbols;
  std::vector<Candidate> heap;
  ByteMap cache;               // piece -> index into stored
  std::vector<Stored> stored;  // range of cached_ids
  std::vector<TokenId> cached_ids;
};

/// Immutable; may be shared by threads, each with a scratch of its own.
class Bpe {
 public:
  /// @param value       the member "model"
  /// @param byte_level  the pre-tokenizer maps bytes to characters as its last step
  [[nodiscard]] static Bpe parse(const JsonValue& value, bool byte_level);

  /// True: encode takes raw bytes and does the map to characters itself. False (also where the
  /// vocabulary lacks a byte that occurs in UTF-8): it takes characters.
  [[nodiscard]] bool takes_bytes() const { return takes_bytes_; }

  /// Appends the ids of one piece.
  void encode(std::string_view piece, BpeScratch& scratch, std::vector<TokenId>* out) const;

  [[nodiscard]] std::optional<TokenId> find(std::string_view token) const {
    return vocab_.find(token);
  }
  [[nodiscard]] const std::unordered_map<TokenId, std::string>& tokens() const { return tokens_; }

 private:
  struct Char {
    char32_t value;
    std::string_view text;
  };
  Bpe() = default;
  void parse_vocab(const JsonValue& value);
  void parse_merges(const JsonValue& value);
  void add_merge(const JsonValue& place, std::string_view left, std::string_view right,
                 std::uint32_t rank);
  void prepare_bytes();
  void prepare_cuts();

  [[nodiscard]] bool stands_for_other_text(TokenId id) const;
  [[nodiscard]] bool may_join(char32_t left, char32_t right) const;
  [[nodiscard]] bool may_cut(const Char& left, const Char& right) const;
  [[nodiscard]] TokenId id_of_char(std::string_view text, char32_t value) const;
  void encode_chars(std::string_view piece, BpeScratch& scratch, std::vector<TokenId>* out) const;
  void encode_cached(std::string_view piece, BpeScratch& scratch, std::vector<TokenId>* out) const;
  void fill_symbols(std::string_view piece, std::vector<TokenId>* ids) const;
  bool append_fallback(std::string_view character, std::vector<TokenId>* ids) const;
  void merge_short(BpeScratch& scratch) const;
  void merge_long(BpeScratch& scratch) const;

  std::string place_;
  ByteMap vocab_;
  std::unordered_map<TokenId, std::string> tokens_;
  MergeTable merges_;
  bool takes_bytes_ = false;
  bool ignore_merges_ = false;
  bool byte_fallback_ = false;
  bool fuse_unknown_ = false;
  std::string unknown_;                      // empty: characters that are no token vanish
  ByteMap raw_vocab_;                        // tokens as raw bytes, filled if takes_bytes_
  std::array<TokenId, 256> byte_ids_{};      // raw byte -> id, or -1
  std::array<TokenId, 256> fallback_ids_{};  // <0xNN>, or -1
  std::array<TokenId, 128> ascii_ids_{};
  bool may_cut_ = false;
  std::unordered_set<std::uint64_t> joins_;  // character pairs across which some merge reaches
  std::vector<bool> ascii_joins_;            // the same for 128 x 128
};

}  // namespace cortiq::model::tokenizer
