#include "tokenizer/bpe.hpp"

#include <algorithm>

#include "tokenizer/utf8.hpp"

namespace cortiq::model::tokenizer {
namespace {

// Up to this many symbols a scan of all pairs per merge is faster than a heap (measured:
// model_tokenizer_bench).
constexpr std::size_t kShortSymbols = 32;
// Longer pieces hardly ever come again; the cache stays within some 10 MB.
constexpr std::size_t kCachedPieceBytes = 64;
constexpr std::size_t kCachedPieces = std::size_t{1} << 16;

bool candidate_after(const BpeScratch::Candidate& a, const BpeScratch::Candidate& b) {
  return a.order > b.order;
}

}  // namespace

void Bpe::encode(std::string_view piece, BpeScratch& scratch, std::vector<TokenId>* out) const {
  if (takes_bytes_) {
    encode_cached(piece, scratch, out);
    return;
  }
  if (ignore_merges_) {
    if (const std::optional<TokenId> whole = vocab_.find(piece)) {
      out->push_back(*whole);
      return;
    }
  }
  encode_chars(piece, scratch, out);
}

bool Bpe::may_join(char32_t left, char32_t right) const {
  if (left < 128 && right < 128) {
    return ascii_joins_[left * 128 + right];
  }
  return joins_.count((std::uint64_t{left} << 32) | right) != 0;
}

TokenId Bpe::id_of_char(std::string_view text, char32_t value) const {
  return value < 128 ? ascii_ids_[value] : vocab_.find(text).value_or(-1);
}

// Whether a cut between two characters leaves the ids as they are. No pair in the merge table has a
// left token that ends with the one and a right token that begins with the other, so no merge ever
// reaches across; but a character that is no token may vanish between two others, and a run of such
// characters may fuse.
bool Bpe::may_cut(const Char& left, const Char& right) const {
  if (may_join(left.value, right.value)) {
    return false;
  }
  const bool left_known = id_of_char(left.text, left.value) >= 0;
  const bool right_known = id_of_char(right.text, right.value) >= 0;
  return unknown_.empty() ? left_known && right_known : left_known || right_known;
}

// A piece without a pre-tokenizer is a whole segment of text; cut, its parts are short and found in
// the cache.
void Bpe::encode_chars(std::string_view piece, BpeScratch& scratch,
                       std::vector<TokenId>* out) const {
  const auto read = [piece](std::size_t begin) {
    std::size_t end = begin;
    const char32_t value = next_char(piece, &end);
    return Char{value, piece.substr(begin, end - begin)};
  };
  std::size_t begin = 0;
  if (may_cut_) {
    Char left = read(0);
    for (std::size_t end = left.text.size(); end < piece.size();) {
      const Char right = read(end);
      if (may_cut(left, right)) {
        encode_cached(piece.substr(begin, end - begin), scratch, out);
        begin = end;
      }
      end += right.text.size();
      left = right;
    }
  }
  encode_cached(piece.substr(begin), scratch, out);
}

void Bpe::encode_cached(std::string_view piece, BpeScratch& scratch,
                        std::vector<TokenId>* out) const {
  const bool cacheable = piece.size() <= kCachedPieceBytes;
  if (cacheable) {
    if (const std::optional<std::int32_t> hit = scratch.cache.find(piece)) {
      const BpeScratch::Stored& range = scratch.stored[static_cast<std::size_t>(*hit)];
      const auto first = scratch.cached_ids.begin() + static_cast<std::ptrdiff_t>(range.begin);
      out->insert(out->end(), first, first + static_cast<std::ptrdiff_t>(range.size));
      return;
    }
  }
  std::vector<TokenId>& ids = scratch.ids;
  ids.clear();
  const std::optional<TokenId> whole =
      takes_bytes_ && ignore_merges_ ? raw_vocab_.find(piece) : std::nullopt;
  if (whole) {
    ids.push_back(*whole);
  } else {
    fill_symbols(piece, &ids);
    ids.size() <= kShortSymbols ? merge_short(scratch) : merge_long(scratch);
  }
  out->insert(out->end(), ids.begin(), ids.end());
  if (cacheable && scratch.cache.size() < kCachedPieces) {
    scratch.cache.insert(piece, static_cast<std::int32_t>(scratch.stored.size()));
    scratch.stored.push_back({scratch.cached_ids.size(), ids.size()});
    scratch.cached_ids.insert(scratch.cached_ids.end(), ids.begin(), ids.end());
  }
}

// One symbol per character. What is no token becomes its bytes <0xNN> if all of them are tokens,
// else the unknown token (one for a whole run with fuse_unk), else nothing. As in the reference, a
// pending unknown token is written only when a known or a further unknown character follows, not
// before bytes.
void Bpe::fill_symbols(std::string_view piece, std::vector<TokenId>* ids) const {
  if (takes_bytes_) {
    for (const char c : piece) {
      ids->push_back(byte_ids_[static_cast<unsigned char>(c)]);
    }
    return;
  }
  TokenId pending = -1;
  for (std::size_t i = 0; i < piece.size();) {
    const std::size_t begin = i;
    const char32_t value = next_char(piece, &i);
    const std::string_view character = piece.substr(begin, i - begin);
    const TokenId id = id_of_char(character, value);
    if (id >= 0) {
      if (pending >= 0) {
        ids->push_back(pending);
        pending = -1;
      }
      ids->push_back(id);
      continue;
    }
    if (append_fallback(character, ids) || unknown_.empty()) {
      continue;
    }
    if (pending >= 0 && !fuse_unknown_) {
      ids->push_back(pending);
    }
    const std::optional<TokenId> unknown = vocab_.find(unknown_);
    if (!unknown) {
      fail(ErrorKind::kInput,
           "{}: the text needs the unknown token '{}', which is not in the vocabulary; the tokenizer.json is incomplete, download it again", place_,
           unknown_);
    }
    pending = *unknown;
  }
  if (pending >= 0) {
    ids->push_back(pending);
  }
}

bool Bpe::append_fallback(std::string_view character, std::vector<TokenId>* ids) const {
  const auto id_of = [this](char c) { return fallback_ids_[static_cast<unsigned char>(c)]; };
  if (!byte_fallback_ ||
      std::any_of(character.begin(), character.end(), [&](char c) { return id_of(c) < 0; })) {
    return false;
  }
  std::transform(character.begin(), character.end(), std::back_inserter(*ids), id_of);
  return true;
}

// Pairs side by side with the symbols; each round takes the first of the lowest rank. No allocation
// once warm.
void Bpe::merge_short(BpeScratch& scratch) const {
  std::vector<TokenId>& ids = scratch.ids;
  std::vector<Merge>& merges = scratch.merges;
  merges.clear();
  for (std::size_t i = 0; i + 1 < ids.size(); ++i) {
    merges.push_back(merges_.find(ids[i], ids[i + 1]));
  }
  while (!merges.empty()) {
    const auto best =
        std::min_element(merges.begin(), merges.end(),
                         [](const Merge& a, const Merge& b) { return a.rank < b.rank; });
    if (!best->exists()) {
      return;
    }
    const auto at = static_cast<std::size_t>(best - merges.begin());
    ids[at] = best->id;
    ids.erase(ids.begin() + static_cast<std::ptrdiff_t>(at) + 1);
    merges.erase(best);
    if (at > 0) {
      merges[at - 1] = merges_.find(ids[at - 1], ids[at]);
    }
    if (at < merges.size()) {
      merges[at] = merges_.find(ids[at], ids[at + 1]);
    }
  }
}

namespace {

// Symbols as a linked list, candidates in a heap. A candidate is stale if the pair at its position
// no longer merges into its token; it is then passed over.
class HeapMerger {
 public:
  HeapMerger(const MergeTable& merges, BpeScratch& scratch)
      : merges_(merges), symbols_(scratch.symbols), heap_(scratch.heap) {
    const auto count = static_cast<std::int32_t>(scratch.ids.size());
    symbols_.clear();
    heap_.clear();
    for (std::int32_t i = 0; i < count; ++i) {
      const std::int32_t next = i + 1 < count ? i + 1 : -1;
      symbols_.push_back({scratch.ids[static_cast<std::size_t>(i)], i - 1, next});
    }
    for (std::int32_t i = 0; i < count; ++i) {
      add(i);
    }
    std::make_heap(heap_.begin(), heap_.end(), candidate_after);
  }

  void run() {
    while (!heap_.empty()) {
      std::pop_heap(heap_.begin(), heap_.end(), candidate_after);
      const BpeScratch::Candidate top = heap_.back();
      heap_.pop_back();
      const auto at = static_cast<std::int32_t>(top.order & 0xFFFFFFFFU);
      if (symbol(at).id >= 0 && merge_at(at).id == top.id) {
        merge(at, top.id);
      }
    }
  }

  void store(std::vector<TokenId>* ids) {
    ids->clear();
    for (std::int32_t i = 0; i >= 0; i = symbol(i).next) {
      ids->push_back(symbol(i).id);
    }
  }

 private:
  BpeScratch::Symbol& symbol(std::int32_t i) { return symbols_[static_cast<std::size_t>(i)]; }
  Merge merge_at(std::int32_t i) {
    const std::int32_t next = symbol(i).next;
    return next < 0 ? Merge{} : merges_.find(symbol(i).id, symbol(next).id);
  }
  bool add(std::int32_t position) {
    const Merge found = merge_at(position);
    if (found.exists()) {
      heap_.push_back(
          {(std::uint64_t{found.rank} << 32) | static_cast<std::uint32_t>(position), found.id});
    }
    return found.exists();
  }
  void push(std::int32_t position) {
    if (position >= 0 && add(position)) {
      std::push_heap(heap_.begin(), heap_.end(), candidate_after);
    }
  }
  void merge(std::int32_t at, TokenId id) {
    const std::int32_t removed = symbol(at).next;
    const std::int32_t next = symbol(removed).next;
    symbol(removed).id = -1;
    symbol(at).id = id;
    symbol(at).next = next;
    if (next >= 0) {
      symbol(next).previous = at;
    }
    push(at);
    push(symbol(at).previous);
  }

  const MergeTable& merges_;
  std::vector<BpeScratch::Symbol>& symbols_;
  std::vector<BpeScratch::Candidate>& heap_;
};

}  // namespace

void Bpe::merge_long(BpeScratch& scratch) const {
  if (scratch.ids.size() > static_cast<std::size_t>(INT32_MAX)) {
    fail(ErrorKind::kUnsupported, "{}: a stretch of {} characters without a split is too long; break the text into lines",
         place_, scratch.ids.size());
  }
  HeapMerger merger(merges_, scratch);
  merger.run();
  merger.store(&scratch.ids);
}

}  // namespace cortiq::model::tokenizer
