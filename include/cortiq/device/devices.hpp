// devices.hpp: which accelerators there are, and which of them a run shall use.
#pragma once

#include <cstdint>
#include <filesystem>
#include <memory>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "cortiq/gptq/backend.hpp"
#include "cortiq/support/log.hpp"
#include "cortiq/support/parallel.hpp"

namespace cortiq::device {

struct DeviceInfo {
  int index = 0;  ///< for --device vulkan:INDEX
  std::string name;
  std::string driver;
  std::string uuid;
  std::string type;  ///< discrete, integrated, virtual, software, other
  std::string api;   ///< Vulkan version
  std::uint64_t memory_bytes = 0;
  std::uint64_t available_bytes = 0;
  std::uint64_t shared_bytes = 0;
  std::uint32_t subgroup_size = 0;
  bool cooperative_matrix = false;   ///< the fast matrix products run on it
  std::vector<std::string> missing;  ///< what it lacks to be used
  std::vector<std::string> features;  ///< what its optional features enable, or what their absence means
};

struct DeviceList {
  std::vector<DeviceInfo> devices;
  std::string why_none;  ///< set when the list is empty
};
[[nodiscard]] DeviceList list_devices();

struct KernelInfo {
  std::string name;
  std::uint64_t bytes = 0;  ///< of SPIR-V; 0: no compiler at build time could translate it
  bool needs_cooperative_matrix = false;
};
[[nodiscard]] std::vector<KernelInfo> list_kernels();

/// What --device said, resolved.
struct Choice {
  std::vector<DeviceInfo> devices;  ///< empty: host only
  std::string reason;               ///< why there is none, or which and why
};

/// @param text  auto | cpu | vulkan | vulkan:WHICH[,WHICH…] with WHICH an index, a part of the name, or a UUID.
/// auto takes the first usable card and never a software device. Throws Error{kUsage} for text that is none of these,
/// Error{kDevice} where a device asked for by name is not there or cannot be used.
[[nodiscard]] Choice choose_devices(std::string_view text);

struct BackendOptions {
  std::optional<std::filesystem::path> cache_folder;  ///< compiled pipelines
  std::uint64_t memory_limit = 0;                     ///< bytes of each device, 0 = what the driver offers
  bool plain_products = false;                        ///< f32 products even where cooperative matrices are present
  int in_flight = 3;                                  ///< groups at once on a device
};

/// Counts for the report.
struct BackendUse {
  std::int64_t device_groups = 0;
  std::int64_t host_groups = 0;
  double device_seconds = 0;                ///< busy, by the device's clock
  std::uint64_t peak_bytes = 0;             ///< of device memory
  std::vector<std::string> host_reasons;    ///< one a group that the device did not take
};

/// Folds and sweeps on the devices; what they decline or fail at goes to the host, with a warning for failures.
class DeviceBackend : public gptq::Backend {
 public:
  [[nodiscard]] virtual BackendUse use() const = 0;
  /// For tests: the next allocation or submission of device 0, counted from now, fails.
  virtual void inject_out_of_memory(int after) = 0;
  virtual void inject_device_lost(int after) = 0;
};

/// choice.devices: not empty. pool and log must outlive the backend.
[[nodiscard]] std::unique_ptr<DeviceBackend> make_device_backend(const Choice& choice,
                                                                 const BackendOptions& options,
                                                                 Pool& pool, Log& log);

}  // namespace cortiq::device
