// flat_groups.hpp: decoding of formats whose groups of 32 run over the flattened tensor, so that a
// row may begin and end inside a group.
#pragma once

#include <algorithm>
#include <array>
#include <cstdint>

#include "scalar_math.hpp"

namespace cortiq::codec {

/// Writes elements [first, first + count) to out. decode_group(g, target) writes the 32 values of
/// group g.
template <typename DecodeGroup>
void decode_flat(std::int64_t first, std::int64_t count, float* out, DecodeGroup decode_group) {
  std::array<float, kGroup> group;
  const std::int64_t end = first + count;
  std::int64_t at = first;
  while (at < end) {
    const std::int64_t g = at / kGroup;
    const std::int64_t skip = at - g * kGroup;
    const std::int64_t take = std::min(kGroup - skip, end - at);
    if (take == kGroup) {
      decode_group(g, out);
    } else {
      decode_group(g, group.data());
      std::copy_n(group.data() + skip, take, out);
    }
    out += take;
    at += take;
  }
}

}  // namespace cortiq::codec
