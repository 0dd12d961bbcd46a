// page_buffer.hpp: large zeroed arrays on whole pages, huge ones where the system has them.
//
// A tile of a matrix whose rows are many KiB long touches one page per row; with 4 KiB pages the
// address translation slows the arithmetic. Rows that begin on a cache line keep a register tile
// on whole lines.
#pragma once

#include <cstddef>
#include <cstdint>
#include <memory>
#include <new>
#include <type_traits>

namespace cortiq {

/// kHuge: 2 MiB become resident at a time, if the system grants it: for arrays that are written
/// throughout. kSmall: only what is touched becomes resident.
enum class PageSize { kSmall, kHuge };

/// Zeroed memory, aligned to a page (kHuge, from 2 MiB on: to 2 MiB). Throws std::bad_alloc.
[[nodiscard]] void* map_pages(std::size_t bytes, PageSize size);
void unmap_pages(void* data, std::size_t bytes) noexcept;

struct UnmapPages {
  std::size_t bytes = 0;
  void operator()(void* data) const noexcept { unmap_pages(data, bytes); }
};
template <typename T>
using PageBuffer = std::unique_ptr<T[], UnmapPages>;

/// @param count  elements, at least 1. Throws std::bad_alloc.
template <typename T>
[[nodiscard]] PageBuffer<T> make_page_buffer(std::int64_t count, PageSize size) {
  static_assert(std::is_trivial_v<T>);
  if (count < 1 || count > PTRDIFF_MAX / std::int64_t{sizeof(T)}) throw std::bad_alloc();
  const std::size_t bytes = static_cast<std::size_t>(count) * sizeof(T);
  return PageBuffer<T>(static_cast<T*>(map_pages(bytes, size)), UnmapPages{bytes});
}

}  // namespace cortiq
