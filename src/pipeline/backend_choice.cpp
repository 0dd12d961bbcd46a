#include "backend_choice.hpp"

#include <algorithm>
#include <map>

namespace cortiq::pipeline {

namespace {

constexpr int kInFlight = 4;  // groups on a device: one computes while others move data or wait for the host
constexpr double kBytesPerGb = 1e9;

}  // namespace

void check_gigabytes(std::string_view option, double value) {
  if (!(value > 0 && value < 1e9))
    fail(ErrorKind::kUsage, "{} {}: expected a positive number of gigabytes, below 1e9", option, value);
}

void BackendChoice::resolve(const DeviceOptions& options, Context& context) {
  options_ = options;
  if (options.vram_gb) check_gigabytes("--vram-gb", *options.vram_gb);
  choice_ = device::choose_devices(options.device);
  if (options.vram_gb && options.device == "cpu")
    fail(ErrorKind::kUsage, "--vram-gb: has an effect only with a device, and --device cpu uses none");
  if (uses_device()) {
    context.log.info("device: {} ({})", name(), choice_.reason);
  } else {
    context.log.info("device: none, the host folds and sweeps ({})", choice_.reason);
  }
}

void BackendChoice::open(Context& context) {
  if (uses_device()) {
    device::BackendOptions backend;
    backend.cache_folder = options_.cache_folder;
    backend.in_flight = kInFlight;
    if (options_.vram_gb)
      backend.memory_limit = static_cast<std::uint64_t>(*options_.vram_gb * kBytesPerGb);
    try {
      auto made = device::make_device_backend(choice_, backend, context.pool, context.log);
      on_device_ = made.get();
      backend_ = std::move(made);
      return;
    } catch (const Error& error) {
      if (options_.device != "auto") throw;
      context.log.warn("{}; the host folds and sweeps", error.what());
      choice_ = {{}, error.what()};
    }
  }
  backend_ = gptq::make_host_backend(context.pool);
}

std::string BackendChoice::name() const {
  if (choice_.devices.empty()) return "cpu";
  std::string text;
  for (const device::DeviceInfo& device : choice_.devices)
    text += (text.empty() ? "" : ", ") + device.name;
  return text;
}

std::int64_t BackendChoice::groups_at_once(std::int64_t planned) const {
  if (!uses_device()) return planned;
  // More would only wait for the device and hold the threads that prepare its work.
  return std::min<std::int64_t>(planned, kInFlight * static_cast<std::int64_t>(choice_.devices.size()));
}

void BackendChoice::report(RunReport& report, Context& context) const {
  report.device = {{"name", name()}, {"reason", choice_.reason}};
  if (on_device_ == nullptr) return;
  const device::BackendUse use = on_device_->use();
  std::map<std::string, std::int64_t> reasons;
  for (const std::string& reason : use.host_reasons) ++reasons[reason];
  report.device["device_groups"] = use.device_groups;
  report.device["host_groups"] = use.host_groups;
  report.device["busy_seconds"] = use.device_seconds;
  report.device["peak_bytes"] = use.peak_bytes;
  report.device["host_reasons"] = reasons;
  context.log.info("device: {} groups on {} ({:.2f} s busy, {:.1f} GB), {} on the host",
                   use.device_groups, name(), use.device_seconds,
                   static_cast<double>(use.peak_bytes) / kBytesPerGb, use.host_groups);
  for (const auto& [reason, count] : reasons)
    context.log.info("device: {} group{} on the host: {}", count, count == 1 ? "" : "s", reason);
}

}  // namespace cortiq::pipeline
