#include "cortiq/support/page_buffer.hpp"

#include <sys/mman.h>
#include <unistd.h>

namespace cortiq {
namespace {

constexpr std::size_t kHugePage = std::size_t{2} << 20;

void* map_zeroed(std::size_t bytes) {
  void* mapped = ::mmap(nullptr, bytes, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
  if (mapped == MAP_FAILED) throw std::bad_alloc();
  return mapped;
}

}  // namespace

void* map_pages(std::size_t bytes, PageSize size) {
  if (size == PageSize::kSmall || bytes < kHugePage) return map_zeroed(bytes);
  // A huge page must lie on its own boundary: map one more and cut both ends.
  const auto page = static_cast<std::size_t>(::sysconf(_SC_PAGESIZE));
  const std::size_t used = (bytes + page - 1) / page * page;
  auto* mapped = static_cast<std::byte*>(map_zeroed(used + kHugePage));
  const std::size_t head =
      (kHugePage - reinterpret_cast<std::uintptr_t>(mapped) % kHugePage) % kHugePage;
  std::byte* data = mapped + head;
  if (head > 0) ::munmap(mapped, head);
  ::munmap(data + used, kHugePage - head);
#ifdef MADV_HUGEPAGE
  ::madvise(data, used, MADV_HUGEPAGE);  // a hint: if it is refused the pages stay small
#endif
  return data;
}

void unmap_pages(void* data, std::size_t bytes) noexcept { ::munmap(data, bytes); }

}  // namespace cortiq
