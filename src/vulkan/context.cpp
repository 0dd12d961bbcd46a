#include "cortiq/vulkan/context.hpp"

#include <algorithm>

#include "cortiq/support/file.hpp"
#include "driver_call.hpp"
#include "state.hpp"

namespace cortiq::vulkan {

namespace {

constexpr std::uint32_t kMostQueues = 4;
constexpr std::uint32_t kPushBytes = 128;

struct Family {
  std::uint32_t index = 0;
  std::uint32_t queues = 0;
  bool timestamps = false;
};

/// A family for computing alone if there is one: its work runs beside that of a desktop.
Family choose_family(Instance::State& instance, VkPhysicalDevice device) {
  std::uint32_t count = 0;
  instance.api.GetPhysicalDeviceQueueFamilyProperties(device, &count, nullptr);
  std::vector<VkQueueFamilyProperties> families(count);
  instance.api.GetPhysicalDeviceQueueFamilyProperties(device, &count, families.data());
  std::optional<Family> best;
  bool best_is_pure = false;
  for (std::uint32_t i = 0; i < count; ++i) {
    const VkQueueFamilyProperties& f = families[i];
    if ((f.queueFlags & VK_QUEUE_COMPUTE_BIT) == 0 || f.queueCount == 0) continue;
    const bool pure = (f.queueFlags & VK_QUEUE_GRAPHICS_BIT) == 0;
    if (best && (best_is_pure || !pure)) continue;
    best = Family{i, f.queueCount, f.timestampValidBits > 0};
    best_is_pure = pure;
  }
  if (!best) fail(ErrorKind::kDevice, "device: no queue for computing; use --device cpu");
  return *best;
}

/// Features are switched on as far as present; describe_adapter has refused devices without the
/// required ones.
void create_device(Context::State& state, const Family& family) {
  auto& instance = state.instance->state();
  VkPhysicalDeviceVulkan11Features h11{VK_STRUCTURE_TYPE_PHYSICAL_DEVICE_VULKAN_1_1_FEATURES};
  VkPhysicalDeviceVulkan12Features h12{VK_STRUCTURE_TYPE_PHYSICAL_DEVICE_VULKAN_1_2_FEATURES};
  VkPhysicalDeviceFeatures2 have{VK_STRUCTURE_TYPE_PHYSICAL_DEVICE_FEATURES_2};
  h11.pNext = &h12;
  have.pNext = &h11;
  instance.api.GetPhysicalDeviceFeatures2(state.physical, &have);

  VkPhysicalDeviceVulkan11Features v11{VK_STRUCTURE_TYPE_PHYSICAL_DEVICE_VULKAN_1_1_FEATURES};
  VkPhysicalDeviceVulkan12Features v12{VK_STRUCTURE_TYPE_PHYSICAL_DEVICE_VULKAN_1_2_FEATURES};
  VkPhysicalDeviceFeatures2 want{VK_STRUCTURE_TYPE_PHYSICAL_DEVICE_FEATURES_2};
  VkPhysicalDeviceCooperativeMatrixFeaturesKHR cooperative{
      VK_STRUCTURE_TYPE_PHYSICAL_DEVICE_COOPERATIVE_MATRIX_FEATURES_KHR, nullptr, VK_TRUE, VK_FALSE};
  want.pNext = &v11;
  v11.pNext = &v12;
  want.features.shaderInt64 = VK_TRUE;
  v11.storageBuffer16BitAccess = h11.storageBuffer16BitAccess;
  v12.bufferDeviceAddress = VK_TRUE;
  v12.scalarBlockLayout = VK_TRUE;
  v12.shaderFloat16 = h12.shaderFloat16;
  v12.vulkanMemoryModel = h12.vulkanMemoryModel;
  v12.vulkanMemoryModelDeviceScope = h12.vulkanMemoryModelDeviceScope;
  std::vector<const char*> extensions;
  if (state.adapter.cooperative_matrix) {
    v12.pNext = &cooperative;
    extensions.push_back(VK_KHR_COOPERATIVE_MATRIX_EXTENSION_NAME);
  }
  const std::uint32_t queues = std::min(family.queues, kMostQueues);
  const std::vector<float> priorities(queues, 1.0F);
  VkDeviceQueueCreateInfo queue{VK_STRUCTURE_TYPE_DEVICE_QUEUE_CREATE_INFO};
  queue.queueFamilyIndex = family.index;
  queue.queueCount = queues;
  queue.pQueuePriorities = priorities.data();
  VkDeviceCreateInfo info{VK_STRUCTURE_TYPE_DEVICE_CREATE_INFO};
  info.pNext = &want;
  info.queueCreateInfoCount = 1;
  info.pQueueCreateInfos = &queue;
  info.enabledExtensionCount = static_cast<std::uint32_t>(extensions.size());
  info.ppEnabledExtensionNames = extensions.data();
  {
    const DriverCall opening;
    check(instance.api.CreateDevice(state.physical, &info, nullptr, &state.device), "vkCreateDevice");
  }
#define X(name)                                                                                  \
  state.api.name = reinterpret_cast<PFN_vk##name>(                                               \
      instance.api.GetDeviceProcAddr(state.device, "vk" #name));                                 \
  if (state.api.name == nullptr) fail(ErrorKind::kDevice, "device: the driver lacks vk" #name);
  CORTIQ_DEVICE_FUNCTIONS(X)
#undef X
  state.family = family.index;
  for (std::uint32_t i = 0; i < queues; ++i) {
    auto slot = std::make_unique<QueueSlot>();
    state.api.GetDeviceQueue(state.device, family.index, i, &slot->queue);
    state.queues.push_back(std::move(slot));
  }
}

void create_layout(Context::State& state) {
  const VkPushConstantRange range{VK_SHADER_STAGE_COMPUTE_BIT, 0, kPushBytes};
  VkPipelineLayoutCreateInfo info{VK_STRUCTURE_TYPE_PIPELINE_LAYOUT_CREATE_INFO};
  info.pushConstantRangeCount = 1;
  info.pPushConstantRanges = &range;
  check(state.api.CreatePipelineLayout(state.device, &info, nullptr, &state.layout),
        "pipeline layout");
}

/// The driver checks the header of the data and starts empty if it is another device's.
void create_cache(Context::State& state, const ContextOptions& options) {
  std::vector<std::byte> data;
  if (options.cache_folder) {
    state.cache_file = *options.cache_folder / fmt::format("pipelines-{}.bin", state.adapter.uuid);
    std::error_code error;
    if (std::filesystem::exists(state.cache_file, error)) {
      try {
        const MappedFile file(state.cache_file);
        data.assign(file.bytes().begin(), file.bytes().end());
      } catch (const Error&) {
        data.clear();  // a cache: worth nothing when it cannot be read
      }
    }
  }
  VkPipelineCacheCreateInfo info{VK_STRUCTURE_TYPE_PIPELINE_CACHE_CREATE_INFO};
  info.initialDataSize = data.size();
  info.pInitialData = data.empty() ? nullptr : data.data();
  if (state.api.CreatePipelineCache(state.device, &info, nullptr, &state.cache) >= 0) return;
  info.initialDataSize = 0;
  info.pInitialData = nullptr;
  check(state.api.CreatePipelineCache(state.device, &info, nullptr, &state.cache), "pipeline cache");
}

}  // namespace

Context::State::~State() {
  if (device == VK_NULL_HANDLE || hung) return;
  api.DeviceWaitIdle(device);
  for (auto& [key, pipeline] : pipelines) api.DestroyPipeline(device, pipeline->handle, nullptr);
  for (auto& block : idle) destroy_block(*this, *block);
  if (cache != VK_NULL_HANDLE) api.DestroyPipelineCache(device, cache, nullptr);
  if (layout != VK_NULL_HANDLE) api.DestroyPipelineLayout(device, layout, nullptr);
  api.DestroyDevice(device, nullptr);
}

Context::Context(std::unique_ptr<State> state) : state_(std::move(state)) {}

Context::~Context() {
  try {
    save_pipeline_cache();
  } catch (const Error&) {
    // The next run compiles again.
  }
}

std::shared_ptr<Context> Context::open(std::shared_ptr<Instance> instance, const Adapter& adapter,
                                       const ContextOptions& options) {
  CORTIQ_ASSERT(adapter.usable());
  auto state = std::make_unique<State>();
  state->instance = std::move(instance);
  const auto devices = physical_devices(state->instance->state());
  if (adapter.index < 0 || static_cast<std::size_t>(adapter.index) >= devices.size())
    fail(ErrorKind::kDevice, "device {}: gone since it was listed; see `cortiq-quant devices`, or use --device cpu", adapter.index);
  state->adapter = adapter;
  state->memory_limit = options.memory_limit;
  state->physical = devices[static_cast<std::size_t>(adapter.index)];
  auto& api = state->instance->state().api;
  const Family family = choose_family(state->instance->state(), state->physical);
  create_device(*state, family);
  VkPhysicalDeviceProperties2 properties{VK_STRUCTURE_TYPE_PHYSICAL_DEVICE_PROPERTIES_2};
  api.GetPhysicalDeviceProperties2(state->physical, &properties);
  if (family.timestamps)
    state->timestamp_seconds =
        static_cast<double>(properties.properties.limits.timestampPeriod) * 1e-9;
  VkPhysicalDeviceMemoryProperties2 memory{VK_STRUCTURE_TYPE_PHYSICAL_DEVICE_MEMORY_PROPERTIES_2};
  api.GetPhysicalDeviceMemoryProperties2(state->physical, &memory);
  state->memory = memory.memoryProperties;
  create_layout(*state);
  create_cache(*state, options);
  return std::shared_ptr<Context>(new Context(std::move(state)));
}

const Adapter& Context::adapter() const { return state_->adapter; }

bool injected(std::atomic<int>& countdown) {
  int now = countdown.load();
  while (now >= 0 && !countdown.compare_exchange_weak(now, now - 1)) {
  }
  return now == 0;
}

void Context::inject_out_of_memory(int after) { state_->fail_allocation = after; }
void Context::inject_device_lost(int after) { state_->fail_submission = after; }

}  // namespace cortiq::vulkan
