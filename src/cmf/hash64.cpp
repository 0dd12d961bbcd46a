#include "cortiq/cmf/hash64.hpp"

#include "hash64_blocks.hpp"

namespace cortiq::cmf {
namespace {

constexpr std::uint64_t kWordSalt = 0x9E3779B97F4A7C15ULL;  // cmf.md section 3

inline std::uint64_t mix(std::uint64_t x) noexcept {
  x ^= x >> 33;
  x *= 0xFF51AFD7ED558CCDULL;
  x ^= x >> 33;
  x *= 0xC4CEB9FE1A85EC53ULL;
  x ^= x >> 33;
  return x;
}

}  // namespace

std::uint64_t hash64_partial(ByteSpan block, std::uint64_t first_word) noexcept {
  const std::byte* p = block.data();
  const std::size_t words = block.size() / 8;
  std::uint64_t salt = first_word * kWordSalt;
  // Four independent chains: the words do not depend on each other, only the sums do.
  std::uint64_t a = 0;
  std::uint64_t b = 0;
  std::uint64_t c = 0;
  std::uint64_t d = 0;
  std::size_t i = 0;
  for (; i + 4 <= words; i += 4, p += 32) {
    a ^= mix(load_le<std::uint64_t>(p)) ^ salt;
    b ^= mix(load_le<std::uint64_t>(p + 8)) ^ (salt + kWordSalt);
    c ^= mix(load_le<std::uint64_t>(p + 16)) ^ (salt + 2 * kWordSalt);
    d ^= mix(load_le<std::uint64_t>(p + 24)) ^ (salt + 3 * kWordSalt);
    salt += 4 * kWordSalt;
  }
  for (; i < words; ++i, p += 8, salt += kWordSalt) a ^= mix(load_le<std::uint64_t>(p)) ^ salt;
  if (const std::size_t rest = block.size() % 8; rest != 0) {
    std::uint64_t tail = 0;
    std::memcpy(&tail, p, rest);
    a ^= mix(tail) ^ salt;
  }
  return a ^ b ^ c ^ d;
}

std::uint64_t hash64_finish(std::uint64_t accumulator, std::uint64_t length) noexcept {
  return mix(accumulator ^ length);
}

std::uint64_t hash64(ByteSpan bytes) noexcept {
  return hash64_finish(hash64_partial(bytes, 0), bytes.size());
}

}  // namespace cortiq::cmf
