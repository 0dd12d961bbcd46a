// merge_table.hpp: which two tokens merge, with what rank, into which token.
#pragma once

#include <cstdint>
#include <vector>

#include "cortiq/model/tokenizer.hpp"
#include "tokenizer/byte_map.hpp"

namespace cortiq::model::tokenizer {

struct Merge {
  std::uint32_t rank = UINT32_MAX;
  TokenId id = -1;
  [[nodiscard]] bool exists() const { return id >= 0; }
};

/// Open addressing on the pair of ids; a later insert of the same pair replaces the earlier one.
class MergeTable {
 public:
  MergeTable() : slots_(64) {}

  [[nodiscard]] Merge find(TokenId left, TokenId right) const {
    return slots_[place(key_of(left, right))].merge;
  }
  void insert(TokenId left, TokenId right, Merge merge) {
    if (2 * (size_ + 1) > slots_.size()) {
      grow();
    }
    const std::uint64_t key = key_of(left, right);
    Slot& slot = slots_[place(key)];
    size_ += slot.key == kFree ? 1 : 0;
    slot = {key, merge};
  }

  /// Calls visit(left, right) for every pair, in no particular order.
  template <typename Visit>
  void for_each_pair(Visit&& visit) const {
    for (const Slot& slot : slots_) {
      if (slot.key != kFree) {
        visit(static_cast<TokenId>(slot.key >> 32), static_cast<TokenId>(slot.key & 0xFFFFFFFFU));
      }
    }
  }

 private:
  static constexpr std::uint64_t kFree = UINT64_MAX;
  struct Slot {
    std::uint64_t key = kFree;
    Merge merge;
  };
  [[nodiscard]] static std::uint64_t key_of(TokenId left, TokenId right) {
    return (std::uint64_t{static_cast<std::uint32_t>(left)} << 32) |
           static_cast<std::uint32_t>(right);
  }
  [[nodiscard]] std::size_t place(std::uint64_t key) const {
    const std::size_t mask = slots_.size() - 1;
    std::size_t at = mix_bits(key * 0xD6E8FEB86659FD93U) & mask;
    while (slots_[at].key != key && slots_[at].key != kFree) {
      at = (at + 1) & mask;
    }
    return at;
  }
  void grow() {
    std::vector<Slot> old(slots_.size() * 2);
    old.swap(slots_);
    for (const Slot& slot : old) {
      if (slot.key != kFree) {
        slots_[place(slot.key)] = slot;
      }
    }
  }

  std::vector<Slot> slots_;
  std::size_t size_ = 0;
};

}  // namespace cortiq::model::tokenizer
