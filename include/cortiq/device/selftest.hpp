// selftest.hpp: the properties of gptq.md section 12 on a device of this machine, measured against the host's f64, and the
// speeds of both. Problems are made from fixed seeds; nothing but the speeds depends on the clock.
#pragma once

#include <string>
#include <string_view>
#include <vector>

#include "cortiq/device/devices.hpp"
#include "cortiq/support/interrupt.hpp"

namespace cortiq::device {

/// One measured property.
struct SelftestLine {
  std::string path;      ///< arithmetic of the matrix products: plain or cooperative
  std::string property;  ///< what was measured, with the number of gptq.md section 12 where it has one
  double value = 0;
  double bound = 0;
  bool at_least = false;  ///< value >= bound is right, else value <= bound
  /// A value that is not a number passes nothing.
  [[nodiscard]] bool passed() const { return at_least ? value >= bound : value <= bound; }
};

struct SelftestSpeed {
  std::string path;
  std::string work;       ///< for example "fold, n 4096"
  double flops = 0;       ///< nominal arithmetic: 2/3 n^3 of a fold, rows n^2 of a pass of the sweep
  double device_ms = 0;   ///< by the device's clock; 0 where it has none
  double wall_ms = 0;     ///< with uploads and downloads
  double host_ms = 0;
};

struct SelftestReport {
  DeviceInfo device;
  std::vector<SelftestLine> lines;
  std::vector<SelftestSpeed> speeds;
  std::vector<std::string> problems;  ///< what ended a part of the test early
  double seconds = 0;

  [[nodiscard]] bool passed() const {
    if (lines.empty() || !problems.empty()) return false;
    for (const SelftestLine& line : lines)
      if (!line.passed()) return false;
    return true;
  }
};

/// As choose_devices, but `auto` takes the first usable device of any kind where there is no card.
/// Throws Error{kUsage} for `cpu`, Error{kDevice} where there is no usable device.
[[nodiscard]] Choice choose_selftest_devices(std::string_view text);

/// @param options  cache_folder and memory_limit; both product paths are tested where the device has both.
/// Each measured line also goes to the log, at the debug level. After a lost device the rest is skipped.
/// Throws Error{kDevice} where the device does not open, Error{kInterrupted} between two measurements.
[[nodiscard]] SelftestReport run_selftest(const DeviceInfo& device, const BackendOptions& options,
                                          Pool& pool, Log& log, const Interrupt& interrupt);

}  // namespace cortiq::device
