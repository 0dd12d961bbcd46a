// byte_map.hpp: hash map from byte strings to 32-bit values, made for the two hot look-ups of the
// tokenizer: vocabulary and piece cache. Open addressing, keys in one arena; iteration is not
// offered, so no result depends on hash order.
#pragma once

#include <cstdint>
#include <cstring>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "cortiq/support/error.hpp"

namespace cortiq::model::tokenizer {

[[nodiscard]] inline std::uint64_t mix_bits(std::uint64_t value) {
  value ^= value >> 32;
  value *= 0x9E3779B97F4A7C15U;  // 2^64 / golden ratio
  return value ^ (value >> 29);
}

[[nodiscard]] inline std::uint64_t hash_bytes(std::string_view bytes) {
  std::uint64_t hash = bytes.size();
  std::size_t i = 0;
  std::uint64_t word = 0;
  for (; i + 8 <= bytes.size(); i += 8) {
    std::memcpy(&word, bytes.data() + i, 8);
    hash = mix_bits(hash ^ word);
  }
  word = 0;
  if (i < bytes.size()) {
    std::memcpy(&word, bytes.data() + i, bytes.size() - i);
  }
  return mix_bits(hash ^ word);
}

class ByteMap {
 public:
  ByteMap() : slots_(kFirstSlots) {}

  [[nodiscard]] std::optional<std::int32_t> find(std::string_view key) const {
    const Slot& slot = slots_[place(key, hash_bytes(key))];
    return slot.used ? std::optional(slot.value) : std::nullopt;
  }
  /// False (and no change) where the key is already there.
  bool insert(std::string_view key, std::int32_t value) {
    if (2 * (size_ + 1) > slots_.size()) {
      grow();
    }
    const std::uint64_t hash = hash_bytes(key);
    Slot& slot = slots_[place(key, hash)];
    if (slot.used) {
      return false;
    }
    CORTIQ_ASSERT(keys_.size() + key.size() <= UINT32_MAX);
    slot = {static_cast<std::uint32_t>(hash >> 32), static_cast<std::uint32_t>(keys_.size()),
            static_cast<std::uint32_t>(key.size()), value, true};
    keys_.append(key);
    ++size_;
    return true;
  }
  [[nodiscard]] std::size_t size() const { return size_; }

 private:
  static constexpr std::size_t kFirstSlots = 64;
  struct Slot {
    std::uint32_t tag = 0;  // upper half of the hash
    std::uint32_t offset = 0;
    std::uint32_t size = 0;
    std::int32_t value = 0;
    bool used = false;
  };
  [[nodiscard]] std::string_view key_of(const Slot& slot) const {
    return std::string_view(keys_).substr(slot.offset, slot.size);
  }
  // The slot that holds the key, or the free one where it belongs.
  [[nodiscard]] std::size_t place(std::string_view key, std::uint64_t hash) const {
    const std::size_t mask = slots_.size() - 1;
    std::size_t at = hash & mask;
    while (slots_[at].used && (slots_[at].tag != static_cast<std::uint32_t>(hash >> 32) ||
                               key_of(slots_[at]) != key)) {
      at = (at + 1) & mask;
    }
    return at;
  }
  void grow() {
    std::vector<Slot> old(slots_.size() * 2);
    old.swap(slots_);
    for (const Slot& slot : old) {
      if (slot.used) {
        const std::string_view key = key_of(slot);
        slots_[place(key, hash_bytes(key))] = slot;
      }
    }
  }

  std::vector<Slot> slots_;
  std::string keys_;
  std::size_t size_ = 0;
};

}  // namespace cortiq::model::tokenizer
