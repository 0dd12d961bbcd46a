// The twin of the device module in builds without Vulkan: no devices.
#include "cortiq/device/devices.hpp"

namespace cortiq::device {

namespace {
constexpr const char* kWhy = "this program was built without Vulkan";
}

DeviceList list_devices() { return {{}, kWhy}; }
std::vector<KernelInfo> list_kernels() { return {}; }

Choice choose_devices(std::string_view text) {
  if (text == "auto") return {{}, kWhy};
  if (text == "cpu") return {{}, "--device cpu"};
  if (text.starts_with("vulkan"))
    fail(ErrorKind::kDevice, "--device {}: {}; use --device cpu", text, kWhy);
  fail(ErrorKind::kUsage, "--device {}: expected auto, cpu or vulkan[:index|:name]", text);
}

std::unique_ptr<DeviceBackend> make_device_backend(const Choice&, const BackendOptions&, Pool&, Log&) {
  CORTIQ_ASSERT(false);  // choose_devices never returns a device
  return nullptr;
}

}  // namespace cortiq::device
