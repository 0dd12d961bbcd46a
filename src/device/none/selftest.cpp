// The twin of the selftest in builds without Vulkan: there is nothing to test.
#include "cortiq/device/selftest.hpp"

namespace cortiq::device {

Choice choose_selftest_devices(std::string_view text) {
  if (text == "cpu")
    fail(ErrorKind::kUsage, "--device cpu: selftest compares a device with the host; name a device");
  fail(ErrorKind::kDevice, "--device {}: this program was built without Vulkan; build it with CORTIQ_VULKAN=ON", text);
}

SelftestReport run_selftest(const DeviceInfo&, const BackendOptions&, Pool&, Log&, const Interrupt&) {
  CORTIQ_ASSERT(false);  // choose_selftest_devices never returns a device
  return {};
}

}  // namespace cortiq::device
