#include <dlfcn.h>

#include <algorithm>
#include <cstring>

#include "cortiq/vulkan/adapter.hpp"
#include "driver_call.hpp"
#include "state.hpp"

namespace cortiq::vulkan {

namespace {

constexpr const char* kValidationLayer = "VK_LAYER_KHRONOS_validation";

VKAPI_ATTR VkBool32 VKAPI_CALL on_message(VkDebugUtilsMessageSeverityFlagBitsEXT,
                                          VkDebugUtilsMessageTypeFlagsEXT,
                                          const VkDebugUtilsMessengerCallbackDataEXT* data,
                                          void* user) {
  auto* state = static_cast<Instance::State*>(user);
  const std::lock_guard lock(state->mutex);
  state->messages.emplace_back(data->pMessage != nullptr ? data->pMessage : "");
  return VK_FALSE;
}

VkDebugUtilsMessengerCreateInfoEXT messenger_info(Instance::State& state) {
  VkDebugUtilsMessengerCreateInfoEXT info{VK_STRUCTURE_TYPE_DEBUG_UTILS_MESSENGER_CREATE_INFO_EXT};
  info.messageSeverity = VK_DEBUG_UTILS_MESSAGE_SEVERITY_WARNING_BIT_EXT |
                         VK_DEBUG_UTILS_MESSAGE_SEVERITY_ERROR_BIT_EXT;
  info.messageType = VK_DEBUG_UTILS_MESSAGE_TYPE_VALIDATION_BIT_EXT;
  info.pfnUserCallback = on_message;
  info.pUserData = &state;
  return info;
}

template <typename Function>
Function find(Instance::State& state, const char* name) {
  return reinterpret_cast<Function>(state.get(state.instance, name));
}

void load_functions(Instance::State& state) {
#define X(name)                                                          \
  state.api.name = find<PFN_vk##name>(state, "vk" #name);                \
  if (state.api.name == nullptr)                                         \
    fail(ErrorKind::kDevice, "Vulkan loader: vk" #name " is missing; install a newer loader");
  CORTIQ_INSTANCE_FUNCTIONS(X)
#undef X
  state.cooperative_properties = find<PFN_vkGetPhysicalDeviceCooperativeMatrixPropertiesKHR>(
      state, "vkGetPhysicalDeviceCooperativeMatrixPropertiesKHR");
}

void open_library(Instance::State& state) {
  state.library = dlopen("libvulkan.so.1", RTLD_NOW | RTLD_LOCAL);
  if (state.library == nullptr) {
    fail(ErrorKind::kDevice, "Vulkan loader: {}; install libvulkan1 and a driver, or use --device cpu",
         dlerror());
  }
  state.get = reinterpret_cast<PFN_vkGetInstanceProcAddr>(
      dlsym(state.library, "vkGetInstanceProcAddr"));
  if (state.get == nullptr) fail(ErrorKind::kDevice, "Vulkan loader: not a Vulkan loader");
}

void create_instance(Instance::State& state, const InstanceOptions& options) {
  VkApplicationInfo application{VK_STRUCTURE_TYPE_APPLICATION_INFO};
  application.pApplicationName = "cortiq-quant";
  application.apiVersion = VK_API_VERSION_1_2;
  VkInstanceCreateInfo info{VK_STRUCTURE_TYPE_INSTANCE_CREATE_INFO};
  info.pApplicationInfo = &application;
  const char* layer = kValidationLayer;
  const char* extension = VK_EXT_DEBUG_UTILS_EXTENSION_NAME;
  VkDebugUtilsMessengerCreateInfoEXT messenger = messenger_info(state);
  if (options.validation) {
    info.enabledLayerCount = 1;
    info.ppEnabledLayerNames = &layer;
    info.enabledExtensionCount = 1;
    info.ppEnabledExtensionNames = &extension;
    info.pNext = &messenger;
  }
  const auto create = find<PFN_vkCreateInstance>(state, "vkCreateInstance");
  if (create == nullptr) fail(ErrorKind::kDevice, "Vulkan loader: vkCreateInstance is missing");
  {
    const DriverCall opening;
    check(create(&info, nullptr, &state.instance), "vkCreateInstance");
  }
  load_functions(state);
  if (!options.validation) return;
  const auto make = find<PFN_vkCreateDebugUtilsMessengerEXT>(state, "vkCreateDebugUtilsMessengerEXT");
  state.destroy_messenger =
      find<PFN_vkDestroyDebugUtilsMessengerEXT>(state, "vkDestroyDebugUtilsMessengerEXT");
  if (make != nullptr) check(make(state.instance, &messenger, nullptr, &state.messenger), "messenger");
}

}  // namespace

Instance::State::~State() {
  if (messenger != VK_NULL_HANDLE) destroy_messenger(instance, messenger, nullptr);
  if (instance != VK_NULL_HANDLE && api.DestroyInstance != nullptr)
    api.DestroyInstance(instance, nullptr);
  // The library stays loaded: drivers leave threads and handlers behind that must not lose their code.
}

Instance::Instance(std::unique_ptr<State> state) : state_(std::move(state)) {}
Instance::~Instance() = default;

std::shared_ptr<Instance> Instance::open(const InstanceOptions& options) {
  auto state = std::make_unique<State>();
  open_library(*state);
  create_instance(*state, options);
  return std::shared_ptr<Instance>(new Instance(std::move(state)));
}

std::vector<VkPhysicalDevice> physical_devices(Instance::State& state) {
  const DriverCall opening;
  std::uint32_t count = 0;
  check(state.api.EnumeratePhysicalDevices(state.instance, &count, nullptr), "list of devices");
  std::vector<VkPhysicalDevice> devices(count);
  check(state.api.EnumeratePhysicalDevices(state.instance, &count, devices.data()),
        "list of devices");
  devices.resize(count);
  return devices;
}

std::vector<Adapter> Instance::adapters() const {
  std::vector<Adapter> result;
  for (const VkPhysicalDevice device : physical_devices(*state_)) {
    result.push_back(describe_adapter(*state_, device));
    result.back().index = static_cast<int>(result.size()) - 1;
  }
  return result;
}

std::vector<std::string> Instance::validation_messages() const {
  const std::lock_guard lock(state_->mutex);
  return state_->messages;
}

}  // namespace cortiq::vulkan
