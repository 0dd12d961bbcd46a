#include "cortiq/device/selftest.hpp"

#include <chrono>

#include "selftest_checks.hpp"

namespace cortiq::device {

namespace {

std::string missing_of(const DeviceInfo& device) {
  std::string text;
  for (const std::string& feature : device.missing) text += (text.empty() ? "" : ", ") + feature;
  return text;
}

/// An error ends its part and is a failure of the test, not the end of the program.
void run_part(SelftestReport& report, std::string_view name, const std::function<void()>& part) {
  try {
    part();
  } catch (const Error& error) {
    report.problems.push_back(fmt::format("{}: {}", name, error.what()));
  }
}

}  // namespace

Choice choose_selftest_devices(std::string_view text) {
  if (text == "cpu")
    fail(ErrorKind::kUsage, "--device cpu: selftest compares a device with the host; name a device");
  Choice choice = choose_devices(text);
  if (!choice.devices.empty()) return choice;
  const DeviceList list = list_devices();
  for (const DeviceInfo& device : list.devices) {
    if (device.missing.empty()) return {{device}, fmt::format("no card; {} found", device.name)};
  }
  if (list.devices.empty()) fail(ErrorKind::kDevice, "selftest: {}", list.why_none);
  const DeviceInfo& first = list.devices.front();
  fail(ErrorKind::kDevice, "selftest: no usable device; {} lacks {}", first.name, missing_of(first));
}

SelftestReport run_selftest(const DeviceInfo& device, const BackendOptions& options, Pool& pool, Log& log) {
  const auto begin = std::chrono::steady_clock::now();
  SelftestReport report;
  report.device = device;
  {
    const auto instance = vulkan::Instance::open();
    const auto adapters = instance->adapters();
    const auto index = static_cast<std::size_t>(device.index);
    if (index >= adapters.size()) fail(ErrorKind::kDevice, "device {}: gone since it was listed", device.index);
    const auto context = vulkan::Context::open(instance, adapters[index], {options.cache_folder, options.memory_limit});
    for (const Path path : {Path::kCooperative, Path::kPlain}) {
      if (path == Path::kCooperative && (options.plain_products || !Engine::cooperative_possible(*context))) continue;
      const Engine engine(context, path);
      const SelftestRun run{engine, pool, report};
      const auto part = [&](const char* name, void (*check)(const SelftestRun&)) {
        log.progress(fmt::format("{} ({} products)", name, run.path()), 0, 1, "parts");
        run_part(report, fmt::format("{} ({} products)", name, run.path()), [&] { check(run); });
      };
      part("folds", check_folds);
      part("sweeps", check_sweeps);
      part("bytes", check_bytes);
      part("speeds", measure_speeds);
    }
  }
  log.progress("groups in flight", 0, 1, "parts");
  run_part(report, "groups in flight", [&] { check_groups_in_flight(device, options, pool, log, report); });
  log.progress("groups in flight", 1, 1, "parts");
  report.seconds = std::chrono::duration<double>(std::chrono::steady_clock::now() - begin).count();
  return report;
}

}  // namespace cortiq::device
