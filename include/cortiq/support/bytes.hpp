// bytes.hpp: little-endian load and store of unaligned values, and checked integer conversion.
#pragma once

#include <bit>
#include <cstddef>
#include <cstdint>
#include <cstring>
#include <limits>
#include <span>
#include <type_traits>

#include "cortiq/support/error.hpp"

namespace cortiq {

static_assert(std::endian::native == std::endian::little, "big-endian hosts are not supported");

using ByteSpan = std::span<const std::byte>;

template <typename T>
requires std::is_trivially_copyable_v<T>
[[nodiscard]] T load_le(const void* source) noexcept {
  T value;
  std::memcpy(&value, source, sizeof(T));
  return value;
}

template <typename T>
requires std::is_trivially_copyable_v<T>
void store_le(void* target, T value) noexcept { std::memcpy(target, &value, sizeof(T)); }

/// Integer conversion that fails an assertion when the value does not fit. For user data test the
/// range first.
template <typename To, typename From>
[[nodiscard]] To checked_cast(From value) {
  const To result = static_cast<To>(value);
  CORTIQ_ASSERT(static_cast<From>(result) == value && ((result < To{}) == (value < From{})));
  return result;
}

/// a*b and a+b for sizes that come from a file; false on overflow.
[[nodiscard]] inline bool mul_overflows(std::uint64_t a, std::uint64_t b,
                                        std::uint64_t* out) noexcept {
  return __builtin_mul_overflow(a, b, out);
}
[[nodiscard]] inline bool add_overflows(std::uint64_t a, std::uint64_t b,
                                        std::uint64_t* out) noexcept {
  return __builtin_add_overflow(a, b, out);
}

}  // namespace cortiq
