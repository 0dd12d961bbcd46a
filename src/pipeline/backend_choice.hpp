// backend_choice.hpp: where a run folds and sweeps: on devices with the host behind them, or on the host.
#pragma once

#include <memory>
#include <string>

#include "cortiq/device/devices.hpp"
#include "cortiq/pipeline/context.hpp"
#include "cortiq/pipeline/options.hpp"
#include "cortiq/pipeline/report.hpp"

namespace cortiq::pipeline {

class BackendChoice {
 public:
  /// Resolves options.device and says so in the log. Throws as device::choose_devices.
  void resolve(const DeviceOptions& options, Context& context);
  /// Opens the devices. Where `auto` finds that they do not open, the host takes over with a warning.
  void open(Context& context);

  [[nodiscard]] bool uses_device() const { return !choice_.devices.empty(); }
  [[nodiscard]] gptq::Backend& backend() { return *backend_; }
  /// "cpu" or the devices' names: part of what decides the bytes.
  [[nodiscard]] std::string name() const;
  /// Groups to work on at the same time, given what the memory plan allows.
  [[nodiscard]] std::int64_t groups_at_once(std::int64_t planned) const;
  /// What was done where, to the report and the log.
  void report(RunReport& report, Context& context) const;

 private:
  DeviceOptions options_;
  device::Choice choice_;
  std::unique_ptr<gptq::Backend> backend_;
  device::DeviceBackend* on_device_ = nullptr;  ///< backend_ where it is one
};

}  // namespace cortiq::pipeline
