#include "cortiq/vulkan/adapter.hpp"

#include <algorithm>
#include <cstring>

#include "state.hpp"

namespace cortiq::vulkan {

namespace {

constexpr std::uint32_t kLeastShared = 32768;
constexpr std::uint32_t kLeastThreads = 256;

std::vector<VkExtensionProperties> extensions(Instance::State& state, VkPhysicalDevice device) {
  std::uint32_t count = 0;
  check(state.api.EnumerateDeviceExtensionProperties(device, nullptr, &count, nullptr), "extensions");
  std::vector<VkExtensionProperties> list(count);
  check(state.api.EnumerateDeviceExtensionProperties(device, nullptr, &count, list.data()),
        "extensions");
  return list;
}

AdapterType type_of(VkPhysicalDeviceType type) {
  switch (type) {
    case VK_PHYSICAL_DEVICE_TYPE_DISCRETE_GPU:
      return AdapterType::kDiscrete;
    case VK_PHYSICAL_DEVICE_TYPE_INTEGRATED_GPU:
      return AdapterType::kIntegrated;
    case VK_PHYSICAL_DEVICE_TYPE_VIRTUAL_GPU:
      return AdapterType::kVirtual;
    case VK_PHYSICAL_DEVICE_TYPE_CPU:
      return AdapterType::kCpu;
    default:
      return AdapterType::kOther;
  }
}

void describe_properties(Instance::State& state, VkPhysicalDevice device, Adapter& adapter) {
  VkPhysicalDeviceVulkan11Properties v11{VK_STRUCTURE_TYPE_PHYSICAL_DEVICE_VULKAN_1_1_PROPERTIES};
  VkPhysicalDeviceVulkan12Properties v12{VK_STRUCTURE_TYPE_PHYSICAL_DEVICE_VULKAN_1_2_PROPERTIES};
  v11.pNext = &v12;
  VkPhysicalDeviceProperties2 properties{VK_STRUCTURE_TYPE_PHYSICAL_DEVICE_PROPERTIES_2};
  properties.pNext = &v11;
  state.api.GetPhysicalDeviceProperties2(device, &properties);
  const VkPhysicalDeviceLimits& limits = properties.properties.limits;
  adapter.name = properties.properties.deviceName;
  adapter.driver = fmt::format("{} {}", v12.driverName, v12.driverInfo);
  for (const std::uint8_t byte : v11.deviceUUID) adapter.uuid += fmt::format("{:02x}", byte);
  adapter.type = type_of(properties.properties.deviceType);
  adapter.api_version = properties.properties.apiVersion;
  adapter.allocation_bytes = v11.maxMemoryAllocationSize;
  adapter.shared_bytes = limits.maxComputeSharedMemorySize;
  adapter.workgroup_threads = limits.maxComputeWorkGroupInvocations;
  adapter.subgroup_size = v11.subgroupSize;
  adapter.timestamps = limits.timestampComputeAndGraphics == VK_TRUE;
  if (adapter.api_version < VK_API_VERSION_1_2) adapter.missing.emplace_back("Vulkan 1.2");
  if (adapter.shared_bytes < kLeastShared) adapter.missing.emplace_back("32 KiB of shared memory");
  if (adapter.workgroup_threads < kLeastThreads) adapter.missing.emplace_back("256 threads a group");
}

void describe_memory(Instance::State& state, VkPhysicalDevice device, Adapter& adapter) {
  VkPhysicalDeviceMemoryBudgetPropertiesEXT budget{
      VK_STRUCTURE_TYPE_PHYSICAL_DEVICE_MEMORY_BUDGET_PROPERTIES_EXT};
  VkPhysicalDeviceMemoryProperties2 memory{VK_STRUCTURE_TYPE_PHYSICAL_DEVICE_MEMORY_PROPERTIES_2};
  const bool known = has_extension(state, device, VK_EXT_MEMORY_BUDGET_EXTENSION_NAME);
  if (known) memory.pNext = &budget;
  adapter.budget_known = known;
  state.api.GetPhysicalDeviceMemoryProperties2(device, &memory);
  for (std::uint32_t i = 0; i < memory.memoryProperties.memoryHeapCount; ++i) {
    const VkMemoryHeap& heap = memory.memoryProperties.memoryHeaps[i];
    if ((heap.flags & VK_MEMORY_HEAP_DEVICE_LOCAL_BIT) == 0 || heap.size < adapter.memory_bytes)
      continue;
    adapter.memory_bytes = heap.size;
    const std::uint64_t used = known ? budget.heapUsage[i] : 0;
    const std::uint64_t allowed = known ? budget.heapBudget[i] : heap.size;
    adapter.budget_bytes = allowed > used ? allowed - used : 0;
  }
}

void describe_features(Instance::State& state, VkPhysicalDevice device, Adapter& adapter) {
  VkPhysicalDeviceVulkan12Features v12{VK_STRUCTURE_TYPE_PHYSICAL_DEVICE_VULKAN_1_2_FEATURES};
  VkPhysicalDeviceFeatures2 features{VK_STRUCTURE_TYPE_PHYSICAL_DEVICE_FEATURES_2};
  features.pNext = &v12;
  state.api.GetPhysicalDeviceFeatures2(device, &features);
  const std::pair<VkBool32, const char*> needed[] = {
      {v12.bufferDeviceAddress, "bufferDeviceAddress"},
      {v12.scalarBlockLayout, "scalarBlockLayout"},
      {features.features.shaderInt64, "shaderInt64"},
  };
  for (const auto& [present, name] : needed) {
    if (present == VK_FALSE) adapter.missing.emplace_back(name);
  }
}

/// f16 x f16 + f32 -> f32 of 16x16x16 in a subgroup, with all that such a kernel needs beside.
bool has_cooperative_matrix(Instance::State& state, VkPhysicalDevice device, const Adapter& adapter) {
  if (!has_extension(state, device, VK_KHR_COOPERATIVE_MATRIX_EXTENSION_NAME)) return false;
  if (state.cooperative_properties == nullptr || adapter.subgroup_size != 32) return false;
  VkPhysicalDeviceVulkan11Features v11{VK_STRUCTURE_TYPE_PHYSICAL_DEVICE_VULKAN_1_1_FEATURES};
  VkPhysicalDeviceVulkan12Features v12{VK_STRUCTURE_TYPE_PHYSICAL_DEVICE_VULKAN_1_2_FEATURES};
  VkPhysicalDeviceCooperativeMatrixFeaturesKHR cooperative{
      VK_STRUCTURE_TYPE_PHYSICAL_DEVICE_COOPERATIVE_MATRIX_FEATURES_KHR, nullptr, VK_FALSE, VK_FALSE};
  v11.pNext = &v12;
  v12.pNext = &cooperative;
  VkPhysicalDeviceFeatures2 features{VK_STRUCTURE_TYPE_PHYSICAL_DEVICE_FEATURES_2};
  features.pNext = &v11;
  state.api.GetPhysicalDeviceFeatures2(device, &features);
  if (cooperative.cooperativeMatrix == VK_FALSE || v12.shaderFloat16 == VK_FALSE ||
      v11.storageBuffer16BitAccess == VK_FALSE || v12.vulkanMemoryModel == VK_FALSE ||
      v12.vulkanMemoryModelDeviceScope == VK_FALSE)
    return false;
  std::uint32_t count = 0;
  if (state.cooperative_properties(device, &count, nullptr) < 0) return false;
  std::vector<VkCooperativeMatrixPropertiesKHR> list(count);
  for (auto& entry : list) entry.sType = VK_STRUCTURE_TYPE_COOPERATIVE_MATRIX_PROPERTIES_KHR;
  if (state.cooperative_properties(device, &count, list.data()) < 0) return false;
  return std::any_of(list.begin(), list.end(), [](const VkCooperativeMatrixPropertiesKHR& p) {
    return p.MSize == 16 && p.NSize == 16 && p.KSize == 16 &&
           p.AType == VK_COMPONENT_TYPE_FLOAT16_KHR && p.BType == VK_COMPONENT_TYPE_FLOAT16_KHR &&
           p.CType == VK_COMPONENT_TYPE_FLOAT32_KHR && p.ResultType == VK_COMPONENT_TYPE_FLOAT32_KHR &&
           p.scope == VK_SCOPE_SUBGROUP_KHR;
  });
}

}  // namespace

const char* adapter_type_name(AdapterType type) {
  switch (type) {
    case AdapterType::kDiscrete:
      return "discrete";
    case AdapterType::kIntegrated:
      return "integrated";
    case AdapterType::kVirtual:
      return "virtual";
    case AdapterType::kCpu:
      return "software";
    case AdapterType::kOther:
      break;
  }
  return "other";
}

bool has_extension(Instance::State& state, VkPhysicalDevice device, const char* name) {
  const auto list = extensions(state, device);
  return std::any_of(list.begin(), list.end(), [name](const VkExtensionProperties& e) {
    return std::strcmp(e.extensionName, name) == 0;
  });
}

Adapter describe_adapter(Instance::State& state, VkPhysicalDevice device) {
  Adapter adapter;
  describe_properties(state, device, adapter);
  if (!adapter.missing.empty() && adapter.missing.front() == "Vulkan 1.2") return adapter;
  describe_memory(state, device, adapter);
  describe_features(state, device, adapter);
  adapter.cooperative_matrix = has_cooperative_matrix(state, device, adapter);
  return adapter;
}

}  // namespace cortiq::vulkan
