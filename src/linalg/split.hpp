// split.hpp: where the recursive triangular algorithms cut a matrix of order n.
#pragma once

#include <cstdint>

namespace cortiq::linalg {

/// Order of the leading part, 0 < head < n for n > 32: about half, on a boundary of whole tiles
/// (multiples of the full depth of a product when large).
[[nodiscard]] inline std::int64_t split_order(std::int64_t n) {
  const std::int64_t unit = n > 1024 ? 256 : n > 256 ? 64 : n > 64 ? 32 : 16;
  return (n / 2 + unit - 1) / unit * unit;
}

}  // namespace cortiq::linalg
