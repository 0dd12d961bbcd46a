// cache_layout.hpp: sizes and limits of a CMFHESS1 file (hessian-cache.md sections 1 and 5), shared
// by writer and reader.
#pragma once

#include <cstddef>
#include <cstdint>
#include <string_view>

namespace cortiq::calib::layout {

inline constexpr std::string_view kMagic = "CMFHESS1";
inline constexpr std::uint64_t kFileHeaderBytes = 16;  // magic, u64 n_entries
inline constexpr std::uint64_t kEntryFixedBytes = 24;  // u64 cols, count, hlen
inline constexpr std::uint64_t kMinEntryBytes =
    32;  // n_names, fixed fields, less than one sum of squares
inline constexpr std::uint64_t kMaxNameBytes = 4096;
/// Optional trailer: JSON, u64 length, this.
inline constexpr std::string_view kFooterMagic = "CMFHMETA";

/// Sums of squares and triangle. cols <= kMaxHessianCols, so nothing overflows.
[[nodiscard]] constexpr std::uint64_t payload_bytes(std::uint64_t cols, bool triangle) {
  return 8 * (cols + (triangle ? cols * (cols + 1) / 2 : 0));
}

/// Offset of row i of the triangle from the start of the payload.
[[nodiscard]] constexpr std::uint64_t row_offset(std::uint64_t cols, std::uint64_t i) {
  return 8 * (cols + i * cols - (i * i - i) / 2);
}

}  // namespace cortiq::calib::layout
