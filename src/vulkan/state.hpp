// state.hpp: the handles behind Instance, Context, Buffer and Pipeline.
#pragma once

#include <atomic>
#include <map>
#include <memory>
#include <mutex>
#include <string>
#include <vector>

#include "api.hpp"
#include "cortiq/vulkan/context.hpp"

namespace cortiq::vulkan {

struct Instance::State {
  ~State();
  void* library = nullptr;
  VkInstance instance = VK_NULL_HANDLE;
  PFN_vkGetInstanceProcAddr get = nullptr;
  PFN_vkDestroyDebugUtilsMessengerEXT destroy_messenger = nullptr;
  PFN_vkGetPhysicalDeviceCooperativeMatrixPropertiesKHR cooperative_properties = nullptr;
  VkDebugUtilsMessengerEXT messenger = VK_NULL_HANDLE;
  InstanceApi api;
  std::mutex mutex;
  std::vector<std::string> messages;
};

/// All physical devices of the instance.
[[nodiscard]] std::vector<VkPhysicalDevice> physical_devices(Instance::State& state);
/// Fills everything but the index.
[[nodiscard]] Adapter describe_adapter(Instance::State& state, VkPhysicalDevice device);
[[nodiscard]] bool has_extension(Instance::State& state, VkPhysicalDevice device, const char* name);

struct Buffer::Block {
  VkBuffer buffer = VK_NULL_HANDLE;
  VkDeviceMemory memory = VK_NULL_HANDLE;
  std::uint64_t capacity = 0;
  std::uint64_t address = 0;
  std::byte* mapped = nullptr;
  MemoryKind kind = MemoryKind::kDevice;
};

class Pipeline {
 public:
  VkPipeline handle = VK_NULL_HANDLE;
};

/// One VkQueue, shared by the streams that it serves.
struct QueueSlot {
  VkQueue queue = VK_NULL_HANDLE;
  std::mutex mutex;
};

struct Context::State {
  ~State();
  std::shared_ptr<Instance> instance;
  Adapter adapter;
  VkPhysicalDevice physical = VK_NULL_HANDLE;
  VkDevice device = VK_NULL_HANDLE;
  DeviceApi api;
  std::uint32_t family = 0;
  std::vector<std::unique_ptr<QueueSlot>> queues;
  std::atomic<unsigned> next_queue{0};
  double timestamp_seconds = 0;  ///< seconds per tick
  VkPhysicalDeviceMemoryProperties memory{};
  VkPipelineLayout layout = VK_NULL_HANDLE;
  VkPipelineCache cache = VK_NULL_HANDLE;
  std::filesystem::path cache_file;
  std::uint64_t memory_limit = 0;

  std::mutex mutex;
  std::map<std::pair<int, std::vector<std::uint32_t>>, std::unique_ptr<Pipeline>> pipelines;
  std::vector<std::unique_ptr<Buffer::Block>> idle;  ///< given back, for reuse
  std::uint64_t in_use = 0;
  std::uint64_t idle_bytes = 0;
  std::uint64_t peak = 0;
  std::atomic<double> flops_per_second{2e10};  ///< measured; a slow device to begin with
  std::atomic<bool> hung{false};  ///< a submission did not end: nothing of it may be destroyed any more
  std::atomic<int> fail_allocation{-1};  ///< test injection: counts down, fails at 0
  std::atomic<int> fail_submission{-1};
};

void destroy_block(Context::State& state, Buffer::Block& block);
/// True once, when the countdown is over.
[[nodiscard]] bool injected(std::atomic<int>& countdown);

}  // namespace cortiq::vulkan
