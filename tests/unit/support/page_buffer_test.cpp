#include "cortiq/support/page_buffer.hpp"

#include <gtest/gtest.h>

#include <algorithm>
#include <cstdint>

namespace {

using namespace cortiq;

std::uintptr_t address(const void* data) { return reinterpret_cast<std::uintptr_t>(data); }

TEST(PageBuffer, IsZeroedWritableAndAlignedAtEverySize) {
  const std::int64_t huge = std::int64_t{2} << 20;
  for (const PageSize size : {PageSize::kSmall, PageSize::kHuge}) {
    for (const std::int64_t count :
         {std::int64_t{1}, std::int64_t{5000}, huge - 1, huge, huge + 1, 3 * huge + 4097}) {
      const auto bytes = make_page_buffer<unsigned char>(count, size);
      EXPECT_EQ(address(bytes.get()) % 4096, 0U) << count;
      if (size == PageSize::kHuge && count >= huge) {
        EXPECT_EQ(address(bytes.get()) % static_cast<std::uintptr_t>(huge), 0U) << count;
      }
      EXPECT_EQ(std::count(bytes.get(), bytes.get() + count, 0), count);
      std::fill(bytes.get(), bytes.get() + count, 255);
      EXPECT_EQ(bytes[static_cast<std::size_t>(count - 1)], 255);
    }
  }
}

TEST(PageBuffer, ASizeThatNoSystemGrantsIsBadAlloc) {
  EXPECT_THROW((void)make_page_buffer<double>(INT64_MAX / 8 - 8192, PageSize::kHuge),
               std::bad_alloc);
  EXPECT_THROW((void)make_page_buffer<double>(INT64_MAX, PageSize::kSmall), std::bad_alloc);
  EXPECT_THROW((void)make_page_buffer<double>(0, PageSize::kSmall), std::bad_alloc);
}

}  // namespace
