#include "cortiq/device/selftest.hpp"

#include <chrono>
#include <functional>

#include "selftest_checks.hpp"

namespace cortiq::device {

namespace {

std::string missing_of(const DeviceInfo& device) {
  std::string text;
  for (const std::string& feature : device.missing) text += (text.empty() ? "" : ", ") + feature;
  return text;
}

/// Runs the parts one after the other. An error ends its part and is a failure of the test, not the end of the program.
class Parts {
 public:
  Parts(SelftestReport& report, Log& log, const Interrupt& interrupt) : report_(report), log_(log), interrupt_(interrupt) {}

  void run(const std::string& name, const std::function<void()>& part) {
    if (lost_) return;
    interrupt_.check();
    const auto begin = std::chrono::steady_clock::now();
    log_.progress(name, 0, 1, "parts");
    try {
      part();
    } catch (const Error& error) {
      if (error.kind() == ErrorKind::kInterrupted) throw;
      lost_ = error.kind() == ErrorKind::kDeviceLost;
      report_.problems.push_back(fmt::format("{}: {}{}", name, error.what(), lost_ ? "; the rest was left out" : ""));
    }
    log_.progress(name, 1, 1, "parts");
    log_.info("{}: {:.1f} s", name, std::chrono::duration<double>(std::chrono::steady_clock::now() - begin).count());
  }

 private:
  SelftestReport& report_;
  Log& log_;
  const Interrupt& interrupt_;
  bool lost_ = false;
};

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

SelftestReport run_selftest(const DeviceInfo& device, const BackendOptions& options, Pool& pool, Log& log,
                            const Interrupt& interrupt) {
  const auto begin = std::chrono::steady_clock::now();
  SelftestReport report;
  report.device = device;
  Parts parts(report, log, interrupt);
  {
    const auto instance = vulkan::Instance::open();
    const auto adapters = instance->adapters();
    const auto index = static_cast<std::size_t>(device.index);
    if (index >= adapters.size()) fail(ErrorKind::kDevice, "device {}: gone since it was listed; see `cortiq-quant devices`", device.index);
    const auto context = vulkan::Context::open(instance, adapters[index], {options.cache_folder, options.memory_limit});
    for (const Path path : {Path::kCooperative, Path::kPlain}) {
      if (path == Path::kCooperative && (options.plain_products || !Engine::cooperative_possible(*context))) continue;
      const Engine engine(context, path);
      const SelftestRun run{engine, pool, log, interrupt, report};
      parts.run(fmt::format("folds, {} products", run.path()), [&] { check_folds(run); });
      parts.run(fmt::format("sweeps, {} products", run.path()), [&] { check_sweeps(run); });
      parts.run(fmt::format("bytes, {} products", run.path()), [&] { check_bytes(run); });
      parts.run(fmt::format("speeds, {} products", run.path()), [&] { measure_speeds(run); });
    }
  }
  parts.run("groups in flight", [&] { check_groups_in_flight(device, options, pool, log, report); });
  report.seconds = std::chrono::duration<double>(std::chrono::steady_clock::now() - begin).count();
  return report;
}

}  // namespace cortiq::device
