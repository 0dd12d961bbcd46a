// memory.cpp: buffers. Freed blocks are kept for reuse: drivers take milliseconds for a large
// allocation, and a run asks for the same sizes layer after layer.
#include <algorithm>
#include <utility>

#include "cortiq/vulkan/context.hpp"
#include "state.hpp"

namespace cortiq::vulkan {

namespace {

constexpr std::uint64_t kGranularity = 64 * 1024;
constexpr std::uint64_t kReuseSlack = 4;  ///< a block serves requests down to 3/4 of its size

std::uint64_t rounded(std::uint64_t bytes) {
  return (std::max<std::uint64_t>(bytes, 1) + kGranularity - 1) / kGranularity * kGranularity;
}

std::optional<std::uint32_t> memory_type(const Context::State& state, std::uint32_t allowed,
                                         VkMemoryPropertyFlags flags) {
  for (std::uint32_t i = 0; i < state.memory.memoryTypeCount; ++i) {
    if ((allowed >> i & 1U) != 0 && (state.memory.memoryTypes[i].propertyFlags & flags) == flags)
      return i;
  }
  return std::nullopt;
}

/// Best first.
std::vector<VkMemoryPropertyFlags> wishes(MemoryKind kind) {
  constexpr VkMemoryPropertyFlags mapped =
      VK_MEMORY_PROPERTY_HOST_VISIBLE_BIT | VK_MEMORY_PROPERTY_HOST_COHERENT_BIT;
  switch (kind) {
    case MemoryKind::kDevice:
      return {VK_MEMORY_PROPERTY_DEVICE_LOCAL_BIT};
    case MemoryKind::kUpload:
    case MemoryKind::kReadback:
      break;
  }
  return {mapped | VK_MEMORY_PROPERTY_HOST_CACHED_BIT, mapped};
}

void bind_memory(Context::State& state, Buffer::Block& block) {
  VkMemoryRequirements needs{};
  state.api.GetBufferMemoryRequirements(state.device, block.buffer, &needs);
  VkMemoryAllocateFlagsInfo flags{VK_STRUCTURE_TYPE_MEMORY_ALLOCATE_FLAGS_INFO};
  flags.flags = VK_MEMORY_ALLOCATE_DEVICE_ADDRESS_BIT;
  VkMemoryAllocateInfo info{VK_STRUCTURE_TYPE_MEMORY_ALLOCATE_INFO};
  info.pNext = &flags;
  info.allocationSize = needs.size;
  VkResult result = VK_ERROR_OUT_OF_DEVICE_MEMORY;
  for (const VkMemoryPropertyFlags wish : wishes(block.kind)) {
    const auto type = memory_type(state, needs.memoryTypeBits, wish);
    if (!type) continue;
    info.memoryTypeIndex = *type;
    result = state.api.AllocateMemory(state.device, &info, nullptr, &block.memory);
    if (result >= 0) break;
  }
  check(result, "memory");
  check(state.api.BindBufferMemory(state.device, block.buffer, block.memory, 0), "memory");
  if (block.kind != MemoryKind::kDevice) {
    void* mapped = nullptr;
    check(state.api.MapMemory(state.device, block.memory, 0, VK_WHOLE_SIZE, 0, &mapped), "mapping");
    block.mapped = static_cast<std::byte*>(mapped);
  }
  VkBufferDeviceAddressInfo address{VK_STRUCTURE_TYPE_BUFFER_DEVICE_ADDRESS_INFO};
  address.buffer = block.buffer;
  block.address = state.api.GetBufferDeviceAddress(state.device, &address);
}

std::unique_ptr<Buffer::Block> create_block(Context::State& state, std::uint64_t capacity,
                                            MemoryKind kind) {
  auto block = std::make_unique<Buffer::Block>();
  block->capacity = capacity;
  block->kind = kind;
  VkBufferCreateInfo info{VK_STRUCTURE_TYPE_BUFFER_CREATE_INFO};
  info.size = capacity;
  info.usage = VK_BUFFER_USAGE_STORAGE_BUFFER_BIT | VK_BUFFER_USAGE_TRANSFER_SRC_BIT |
               VK_BUFFER_USAGE_TRANSFER_DST_BIT | VK_BUFFER_USAGE_SHADER_DEVICE_ADDRESS_BIT;
  try {
    check(state.api.CreateBuffer(state.device, &info, nullptr, &block->buffer), "buffer");
    bind_memory(state, *block);
  } catch (...) {
    destroy_block(state, *block);
    throw;
  }
  return block;
}

/// Smallest idle block that fits without much waste.
std::unique_ptr<Buffer::Block> take_idle(Context::State& state, std::uint64_t capacity,
                                         MemoryKind kind) {
  auto best = state.idle.end();
  for (auto it = state.idle.begin(); it != state.idle.end(); ++it) {
    const std::uint64_t size = (*it)->capacity;
    if ((*it)->kind != kind || size < capacity || size - capacity > size / kReuseSlack) continue;
    if (best == state.idle.end() || size < (*best)->capacity) best = it;
  }
  if (best == state.idle.end()) return nullptr;
  auto block = std::move(*best);
  state.idle.erase(best);
  if (kind == MemoryKind::kDevice) state.idle_bytes -= block->capacity;
  return block;
}

void drop_idle(Context::State& state) {
  for (auto& block : state.idle) destroy_block(state, *block);
  state.idle.clear();
  state.idle_bytes = 0;
}

}  // namespace

void destroy_block(Context::State& state, Buffer::Block& block) {
  if (state.hung) return;
  if (block.buffer != VK_NULL_HANDLE) state.api.DestroyBuffer(state.device, block.buffer, nullptr);
  if (block.memory != VK_NULL_HANDLE) state.api.FreeMemory(state.device, block.memory, nullptr);
  block.buffer = VK_NULL_HANDLE;
  block.memory = VK_NULL_HANDLE;
}

Buffer Context::allocate(std::uint64_t bytes, MemoryKind kind) {
  const std::uint64_t capacity = rounded(bytes);
  State& state = *state_;
  const std::lock_guard lock(state.mutex);
  if (kind == MemoryKind::kDevice && state.memory_limit > 0 &&
      state.in_use + capacity > state.memory_limit) {
    fail(ErrorKind::kOutOfMemory,
         "device {}: {} bytes wanted, {} in use, {} allowed; give it more memory or use --device cpu",
         state.adapter.name, capacity, state.in_use, state.memory_limit);
  }
  auto block = take_idle(state, capacity, kind);
  if (!block) {
    // A test's failure stands for a device that has no memory left, also after idle blocks are given up.
    if (injected(state.fail_allocation)) {
      drop_idle(state);
      fail_result(VK_ERROR_OUT_OF_DEVICE_MEMORY, "memory");
    }
    if (kind == MemoryKind::kDevice && state.memory_limit > 0 &&
        state.in_use + state.idle_bytes + capacity > state.memory_limit)
      drop_idle(state);
    try {
      block = create_block(state, capacity, kind);
    } catch (const Error& error) {
      if (error.kind() != ErrorKind::kOutOfMemory || state.idle.empty()) throw;
      drop_idle(state);
      block = create_block(state, capacity, kind);
    }
  }
  if (kind == MemoryKind::kDevice) {
    state.in_use += block->capacity;
    state.peak = std::max(state.peak, state.in_use);
  }
  Buffer buffer;
  buffer.context_ = shared_from_this();
  buffer.block_ = std::move(block);
  buffer.bytes_ = bytes;
  return buffer;
}

void Context::give_back(std::unique_ptr<Buffer::Block> block) {
  State& state = *state_;
  const std::lock_guard lock(state.mutex);
  if (block->kind == MemoryKind::kDevice) {
    state.in_use -= block->capacity;
    state.idle_bytes += block->capacity;
  }
  state.idle.push_back(std::move(block));
}

std::uint64_t Context::bytes_in_use() const {
  const std::lock_guard lock(state_->mutex);
  return state_->in_use;
}

std::uint64_t Context::peak_bytes() const {
  const std::lock_guard lock(state_->mutex);
  return state_->peak;
}

std::uint64_t Context::bytes_available() const {
  const std::uint64_t budget =
      describe_adapter(state_->instance->state(), state_->physical).budget_bytes;
  const std::lock_guard lock(state_->mutex);
  std::uint64_t available = budget + state_->idle_bytes;
  if (state_->memory_limit > 0) {
    const std::uint64_t rest =
        state_->memory_limit > state_->in_use ? state_->memory_limit - state_->in_use : 0;
    available = std::min(available, rest);
  }
  return available;
}

Buffer::Buffer() = default;
Buffer::Buffer(Buffer&& other) noexcept { *this = std::move(other); }

Buffer& Buffer::operator=(Buffer&& other) noexcept {
  if (this == &other) return *this;
  if (block_) context_->give_back(std::move(block_));
  context_ = std::move(other.context_);
  block_ = std::move(other.block_);
  bytes_ = std::exchange(other.bytes_, 0);
  return *this;
}

Buffer::~Buffer() {
  if (block_) context_->give_back(std::move(block_));
}

std::uint64_t Buffer::address() const { return block_->address; }
std::byte* Buffer::mapped() const {
  CORTIQ_ASSERT(block_->mapped != nullptr);
  return block_->mapped;
}

}  // namespace cortiq::vulkan
