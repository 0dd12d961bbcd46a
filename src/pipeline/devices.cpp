#include "cortiq/pipeline/devices.hpp"

#include <cmath>

namespace cortiq::pipeline {

namespace {

constexpr double kBytesPerGb = 1e9;

/// 1e12 operations a second.
double teraflops(double flops, double ms) { return ms > 0 ? flops / ms * 1e-9 : 0.0; }

cmf::Json number(double value) { return std::isfinite(value) ? cmf::Json(value) : cmf::Json(nullptr); }

}  // namespace

device::DeviceList list_devices() { return device::list_devices(); }
std::vector<device::KernelInfo> list_kernels() { return device::list_kernels(); }

std::vector<device::SelftestReport> run_selftest(const DeviceOptions& options, Context& context) {
  const device::Choice choice = device::choose_selftest_devices(options.device);
  device::BackendOptions backend;
  backend.cache_folder = options.cache_folder;
  if (options.vram_gb) {
    check_gigabytes("--vram-gb", *options.vram_gb);
    backend.memory_limit = static_cast<std::uint64_t>(*options.vram_gb * kBytesPerGb);
  }
  std::vector<device::SelftestReport> reports;
  for (const device::DeviceInfo& device : choice.devices) {
    context.log.info("selftest: {} ({})", device.name, choice.reason);
    reports.push_back(device::run_selftest(device, backend, context.pool, context.log, context.interrupt));
  }
  return reports;
}

cmf::Json device_json(const device::DeviceInfo& device) {
  return {{"index", device.index},
          {"name", device.name},
          {"driver", device.driver},
          {"uuid", device.uuid},
          {"type", device.type},
          {"vulkan", device.api},
          {"memory_bytes", device.memory_bytes},
          {"available_bytes", device.available_bytes},
          {"shared_bytes", device.shared_bytes},
          {"subgroup_size", device.subgroup_size},
          {"cooperative_matrix", device.cooperative_matrix},
          {"usable", device.missing.empty()},
          {"missing", device.missing},
          {"features", device.features}};
}

cmf::Json kernel_json(const device::KernelInfo& kernel) {
  return {{"name", kernel.name}, {"bytes", kernel.bytes}, {"present", kernel.bytes > 0}, {"needs_cooperative_matrix", kernel.needs_cooperative_matrix}};
}

cmf::Json selftest_json(const device::SelftestReport& report) {
  cmf::Json lines = cmf::Json::array(), speeds = cmf::Json::array();
  for (const device::SelftestLine& line : report.lines) {
    lines.push_back({{"path", line.path},
                     {"property", line.property},
                     {"value", number(line.value)},
                     {"bound", line.bound},
                     {"is", line.at_least ? "at least" : "at most"},
                     {"passed", line.passed()}});
  }
  for (const device::SelftestSpeed& speed : report.speeds) {
    speeds.push_back({{"path", speed.path},
                      {"work", speed.work},
                      {"device_ms", speed.device_ms},
                      {"wall_ms", speed.wall_ms},
                      {"host_ms", speed.host_ms},
                      {"device_tflops", teraflops(speed.flops, speed.device_ms)},
                      {"host_tflops", teraflops(speed.flops, speed.host_ms)}});
  }
  return {{"device", device_json(report.device)}, {"passed", report.passed()}, {"lines", lines},
          {"problems", report.problems},          {"speeds", speeds},          {"seconds", report.seconds}};
}

}  // namespace cortiq::pipeline
