// scratch.hpp: uninitialized, cache-line aligned memory for packed operands.
#pragma once

#include <cstddef>
#include <cstdint>
#include <memory>
#include <new>

namespace cortiq::linalg {

inline constexpr std::align_val_t kCacheLine{64};

struct ScratchFree {
  void operator()(void* data) const noexcept { ::operator delete(data, kCacheLine); }
};
template <typename T>
using Scratch = std::unique_ptr<T[], ScratchFree>;

/// Elements are not initialized. Throws std::bad_alloc.
template <typename T>
[[nodiscard]] Scratch<T> make_scratch(std::int64_t count) {
  return Scratch<T>(
      static_cast<T*>(::operator new(static_cast<std::size_t>(count) * sizeof(T), kCacheLine)));
}

}  // namespace cortiq::linalg
