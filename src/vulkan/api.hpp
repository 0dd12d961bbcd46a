// api.hpp: Vulkan's functions, found at run time, and the declarations that older headers lack.
#pragma once

#define VK_NO_PROTOTYPES
#include <vulkan/vulkan.h>

#include <string>

#include "cortiq/support/error.hpp"

// VK_KHR_cooperative_matrix came with headers 1.3.255.
#ifndef VK_KHR_cooperative_matrix
#define VK_KHR_COOPERATIVE_MATRIX_EXTENSION_NAME "VK_KHR_cooperative_matrix"
inline constexpr VkStructureType VK_STRUCTURE_TYPE_PHYSICAL_DEVICE_COOPERATIVE_MATRIX_FEATURES_KHR =
    static_cast<VkStructureType>(1000506000);
inline constexpr VkStructureType VK_STRUCTURE_TYPE_COOPERATIVE_MATRIX_PROPERTIES_KHR =
    static_cast<VkStructureType>(1000506001);
enum VkComponentTypeKHR { VK_COMPONENT_TYPE_FLOAT16_KHR = 0, VK_COMPONENT_TYPE_FLOAT32_KHR = 1 };
enum VkScopeKHR { VK_SCOPE_SUBGROUP_KHR = 3 };
struct VkPhysicalDeviceCooperativeMatrixFeaturesKHR {
  VkStructureType sType;
  void* pNext;
  VkBool32 cooperativeMatrix;
  VkBool32 cooperativeMatrixRobustBufferAccess;
};
struct VkCooperativeMatrixPropertiesKHR {
  VkStructureType sType;
  void* pNext;
  uint32_t MSize, NSize, KSize;
  VkComponentTypeKHR AType, BType, CType, ResultType;
  VkBool32 saturatingAccumulation;
  VkScopeKHR scope;
};
typedef VkResult(VKAPI_PTR* PFN_vkGetPhysicalDeviceCooperativeMatrixPropertiesKHR)(
    VkPhysicalDevice, uint32_t*, VkCooperativeMatrixPropertiesKHR*);
#endif

#define CORTIQ_INSTANCE_FUNCTIONS(X)        \
  X(DestroyInstance)                        \
  X(EnumeratePhysicalDevices)               \
  X(EnumerateDeviceExtensionProperties)     \
  X(GetPhysicalDeviceProperties2)           \
  X(GetPhysicalDeviceFeatures2)             \
  X(GetPhysicalDeviceMemoryProperties2)     \
  X(GetPhysicalDeviceQueueFamilyProperties) \
  X(CreateDevice)                           \
  X(GetDeviceProcAddr)

#define CORTIQ_DEVICE_FUNCTIONS(X) \
  X(DestroyDevice)                 \
  X(GetDeviceQueue)                \
  X(QueueSubmit)                   \
  X(DeviceWaitIdle)                \
  X(AllocateMemory)                \
  X(FreeMemory)                    \
  X(MapMemory)                     \
  X(CreateBuffer)                  \
  X(DestroyBuffer)                 \
  X(GetBufferMemoryRequirements)   \
  X(BindBufferMemory)              \
  X(GetBufferDeviceAddress)        \
  X(CreateShaderModule)            \
  X(DestroyShaderModule)           \
  X(CreatePipelineLayout)          \
  X(DestroyPipelineLayout)         \
  X(CreatePipelineCache)           \
  X(DestroyPipelineCache)          \
  X(GetPipelineCacheData)          \
  X(CreateComputePipelines)        \
  X(DestroyPipeline)               \
  X(CreateCommandPool)             \
  X(DestroyCommandPool)            \
  X(AllocateCommandBuffers)        \
  X(FreeCommandBuffers)            \
  X(BeginCommandBuffer)            \
  X(EndCommandBuffer)              \
  X(CmdBindPipeline)               \
  X(CmdPushConstants)              \
  X(CmdDispatch)                   \
  X(CmdPipelineBarrier)            \
  X(CmdCopyBuffer)                 \
  X(CmdFillBuffer)                 \
  X(CmdResetQueryPool)             \
  X(CmdWriteTimestamp)             \
  X(CreateQueryPool)               \
  X(DestroyQueryPool)              \
  X(GetQueryPoolResults)           \
  X(CreateFence)                   \
  X(DestroyFence)                  \
  X(ResetFences)                   \
  X(WaitForFences)                 \
  X(GetFenceStatus)

namespace cortiq::vulkan {

struct InstanceApi {
#define X(name) PFN_vk##name name = nullptr;
  CORTIQ_INSTANCE_FUNCTIONS(X)
#undef X
};

struct DeviceApi {
#define X(name) PFN_vk##name name = nullptr;
  CORTIQ_DEVICE_FUNCTIONS(X)
#undef X
};

[[nodiscard]] std::string result_name(VkResult result);

/// Throws Error of the kind that fits the result: lost, out of memory, or else kDevice.
[[noreturn]] void fail_result(VkResult result, const char* what);
inline void check(VkResult result, const char* what) {
  if (result < 0) fail_result(result, what);
}

}  // namespace cortiq::vulkan
