#include "vulkan_fixture.hpp"

namespace cortiq::vulkan {
namespace {

using MemoryTest = test::VulkanTest;

constexpr std::uint64_t kBlock = std::uint64_t{1} << 20U;

TEST_F(MemoryTest, buffers_have_addresses_of_their_own_and_count_while_they_live) {
  EXPECT_EQ(context_->bytes_in_use(), 0U);
  const std::uint64_t free_bytes = context_->bytes_available();
  {
    const Buffer a = context_->allocate(kBlock, MemoryKind::kDevice);
    const Buffer b = context_->allocate(3, MemoryKind::kDevice);
    EXPECT_EQ(a.bytes(), kBlock);
    EXPECT_EQ(b.bytes(), 3U);
    EXPECT_TRUE(a.address() + kBlock <= b.address() || b.address() + 3 <= a.address());
    EXPECT_GE(context_->bytes_in_use(), kBlock + 3);
    // Buffers for transfers are the host's memory.
    const std::uint64_t before = context_->bytes_in_use();
    const Buffer upload = context_->allocate(kBlock, MemoryKind::kUpload);
    EXPECT_EQ(context_->bytes_in_use(), before);
  }
  EXPECT_EQ(context_->bytes_in_use(), 0U);
  EXPECT_GE(context_->peak_bytes(), kBlock + 3);
  EXPECT_LE(context_->peak_bytes(), 2 * kBlock);
  EXPECT_GE(context_->bytes_available(), free_bytes - free_bytes / 4);
}

TEST_F(MemoryTest, a_block_that_was_given_back_serves_the_next_request_of_its_size) {
  std::uint64_t address = 0;
  {
    const Buffer first = context_->allocate(kBlock, MemoryKind::kDevice);
    address = first.address();
  }
  const Buffer small = context_->allocate(kBlock / 8, MemoryKind::kDevice);
  EXPECT_NE(small.address(), address);  // too wasteful
  const Buffer second = context_->allocate(kBlock - 100, MemoryKind::kDevice);
  EXPECT_EQ(second.address(), address);
}

TEST_F(MemoryTest, moving_a_buffer_leaves_one_owner) {
  Buffer a = context_->allocate(kBlock, MemoryKind::kDevice);
  const std::uint64_t address = a.address();
  Buffer b = std::move(a);
  EXPECT_EQ(b.address(), address);
  b = context_->allocate(2 * kBlock, MemoryKind::kDevice);
  EXPECT_EQ(context_->bytes_in_use(), 2 * kBlock);
  b = Buffer();
  EXPECT_TRUE(b.empty());
  EXPECT_EQ(context_->bytes_in_use(), 0U);
}

TEST_F(MemoryTest, a_request_above_the_limit_is_refused_with_the_sizes) {
  const auto limited = Context::open(instance_, *adapter_, {.cache_folder = std::nullopt, .memory_limit = 4 * kBlock});
  EXPECT_LE(limited->bytes_available(), 4 * kBlock);
  const Buffer held = limited->allocate(3 * kBlock, MemoryKind::kDevice);
  EXPECT_LE(limited->bytes_available(), kBlock);
  EXPECT_EQ(error_of([&] { (void)limited->allocate(2 * kBlock, MemoryKind::kDevice); }), ErrorKind::kOutOfMemory);
  for (const std::uint64_t number : {2 * kBlock, 3 * kBlock, 4 * kBlock})
    EXPECT_NE(message_.find(std::to_string(number)), std::string::npos) << message_;
  // Staging memory is not the device's.
  EXPECT_EQ(error_of([&] { (void)limited->allocate(8 * kBlock, MemoryKind::kUpload); }), std::nullopt);
}

TEST_F(MemoryTest, idle_blocks_make_room_for_a_request_of_another_size) {
  const auto limited = Context::open(instance_, *adapter_, {.cache_folder = std::nullopt, .memory_limit = 4 * kBlock});
  for (int i = 0; i < 3; ++i) {
    const Buffer a = limited->allocate(3 * kBlock, MemoryKind::kDevice);
    const Buffer b = limited->allocate(kBlock, MemoryKind::kDevice);
  }
  EXPECT_EQ(error_of([&] { (void)limited->allocate(4 * kBlock, MemoryKind::kDevice); }), std::nullopt);
  EXPECT_LE(limited->peak_bytes(), 4 * kBlock);
}

TEST_F(MemoryTest, an_injected_failure_comes_once_and_at_its_place) {
  context_->inject_out_of_memory(1);
  const Buffer first = context_->allocate(kBlock, MemoryKind::kDevice);
  EXPECT_EQ(error_of([&] { (void)context_->allocate(kBlock, MemoryKind::kDevice); }), ErrorKind::kOutOfMemory);
  EXPECT_NE(message_.find("--device cpu"), std::string::npos);
  EXPECT_EQ(error_of([&] { (void)context_->allocate(kBlock, MemoryKind::kDevice); }), std::nullopt);
  EXPECT_EQ(context_->bytes_in_use(), kBlock);
}

TEST_F(MemoryTest, a_request_that_no_device_can_serve_is_an_error_and_not_the_end) {
  EXPECT_EQ(error_of([&] { (void)context_->allocate(std::uint64_t{1} << 46U, MemoryKind::kDevice); }),
            ErrorKind::kOutOfMemory);
  const Buffer after = context_->allocate(kBlock, MemoryKind::kDevice);
  EXPECT_EQ(context_->bytes_in_use(), kBlock);
}

}  // namespace
}  // namespace cortiq::vulkan
