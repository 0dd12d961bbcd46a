// packing.hpp: codes, rungs and params of a sweep -> the payload bytes of one tensor, on the device
// (shaders/sweep/codes_pack.comp; layout of the planes: codec::plane_layout).
#pragma once

#include <cstdint>

#include "engine.hpp"

namespace cortiq::device {

/// A tensor as rows [first_row, first_row + rows) of a stack; addresses are those of the stack.
struct Packing {
  int bits = 4;                  ///< 4: q4tp, 2: q2tp
  std::int64_t first_row = 0;
  std::int64_t rows = 0;
  std::int64_t groups = 0;       ///< n / 32
  std::uint64_t codes = 0;       ///< uvec4 [..][groups]: nibble t of vector a is the code of position 32a + t
  std::uint64_t rungs = 0;       ///< u32 [..][groups] natural order; kNoRung is stored as 0
  std::uint64_t params = 0;      ///< u32 [..]: f16 lo | f16 step << 16
  std::uint64_t position = 0;    ///< u32 [32 * groups] channel -> elimination position
  std::uint64_t payload = 0;     ///< out, payload_bytes() rounded up to whole words, 4-byte aligned
  std::uint64_t zero_groups = 0; ///< u32 [1], the number of all-zero groups is added
};

/// Bytes of the tensor's payload in the file.
[[nodiscard]] std::uint64_t payload_bytes(const Packing& packing);

/// Records one dispatch and no barrier. Writes every byte of the payload, and zeros up to the next word.
void pack_payload(const Engine& engine, vulkan::Stream& stream, const Packing& packing);

}  // namespace cortiq::device
