// devices.hpp: the accelerators of this machine for the commands `devices` and `selftest`: thin functions over the device
// module, and their results as JSON.
#pragma once

#include <vector>

#include "cortiq/cmf/header.hpp"
#include "cortiq/device/selftest.hpp"
#include "cortiq/pipeline/context.hpp"
#include "cortiq/pipeline/options.hpp"

namespace cortiq::pipeline {

[[nodiscard]] device::DeviceList list_devices();
[[nodiscard]] std::vector<device::KernelInfo> list_kernels();
/// One report a device that options.device names (auto: the first card, else the first usable device).
/// Throws as device::choose_selftest_devices and device::run_selftest.
[[nodiscard]] std::vector<device::SelftestReport> run_selftest(const DeviceOptions& options, Context& context);

[[nodiscard]] cmf::Json device_json(const device::DeviceInfo& device);
[[nodiscard]] cmf::Json kernel_json(const device::KernelInfo& kernel);
[[nodiscard]] cmf::Json selftest_json(const device::SelftestReport& report);

}  // namespace cortiq::pipeline
