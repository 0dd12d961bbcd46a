// hash64_blocks.hpp: hash64 of a long payload from blocks that are hashed apart (cmf.md section 3).
// The partial values of all blocks are XORed, in any order, and finished with the total length.
#pragma once

#include <cstdint>

#include "cortiq/support/bytes.hpp"

namespace cortiq::cmf {

/// Accumulator of one block. Every block but the last one of a payload must be a multiple of 8
/// bytes long.
/// @param first_word  index of the block's first 8-byte word in the payload
[[nodiscard]] std::uint64_t hash64_partial(ByteSpan block, std::uint64_t first_word) noexcept;
[[nodiscard]] std::uint64_t hash64_finish(std::uint64_t accumulator, std::uint64_t length) noexcept;

}  // namespace cortiq::cmf
