// cortiq-quant devices: what this machine offers.
#include "command.hpp"
#include "cortiq/pipeline/devices.hpp"
#include "cortiq/support/memory.hpp"

namespace cortiq::app {

namespace {

struct DevicesOptions {
  bool json = false;
  bool shaders = false;
};

double gigabytes(std::uint64_t bytes) { return static_cast<double>(bytes) / 1e9; }

cmf::Json cpu_json(const Pool& pool) {
  return {{"threads", pool.threads()},
          {"kernels", simd_name(pool.simd())},
          {"memory_bytes", total_memory_bytes().value_or(0)},
          {"available_bytes", available_memory_bytes().value_or(0)}};
}

std::string cpu_line(const Pool& pool) {
  return fmt::format("cpu: {} threads, {} kernels, {:.1f} of {:.1f} GB memory available\n", pool.threads(),
                     simd_name(pool.simd()), gigabytes(available_memory_bytes().value_or(0)),
                     gigabytes(total_memory_bytes().value_or(0)));
}

std::string device_lines(const device::DeviceInfo& device) {
  std::string text = fmt::format(
      "vulkan:{}: {} ({}, {}, Vulkan {})\n  memory {:.1f} of {:.1f} GB free, {} KiB shared by a workgroup, subgroups of {}, "
      "cooperative matrices {}\n",
      device.index, device.name, device.type, device.driver, device.api, gigabytes(device.available_bytes),
      gigabytes(device.memory_bytes), device.shared_bytes / 1024, device.subgroup_size,
      device.cooperative_matrix ? "yes" : "no");
  for (const std::string& missing : device.missing) text += fmt::format("  cannot be used: lacks {}\n", missing);
  for (const std::string& feature : device.features) text += fmt::format("  {}\n", feature);
  return text + fmt::format("  uuid {}\n", device.uuid);
}

/// Why a kernel is not there.
constexpr const char* kAbsent = "no shader compiler of the build knows cooperative matrices (tools/setup.sh fetches one)";

std::string kernel_line(const device::KernelInfo& kernel) {
  const char* needs = kernel.needs_cooperative_matrix ? "  (devices with cooperative matrices)" : "";
  if (kernel.bytes == 0) return fmt::format("{:24} absent: {}\n", kernel.name, kAbsent);
  return fmt::format("{:24} {:7} bytes{}\n", kernel.name, kernel.bytes, needs);
}

int show_shaders(bool json) {
  const auto kernels = pipeline::list_kernels();
  if (json) {
    cmf::Json list = cmf::Json::array();
    for (const device::KernelInfo& kernel : kernels) {
      list.push_back(pipeline::kernel_json(kernel));
      if (kernel.bytes == 0) list.back()["why_absent"] = kAbsent;
    }
    print_json({{"kernels", list}});
    return 0;
  }
  if (kernels.empty()) print("no kernels: this program was built without Vulkan\n");
  std::string text;
  for (const device::KernelInfo& kernel : kernels) text += kernel_line(kernel);
  print(text);
  return 0;
}

int show_devices(const Pool& pool, bool json) {
  const device::DeviceList list = pipeline::list_devices();
  if (json) {
    cmf::Json devices = cmf::Json::array();
    for (const device::DeviceInfo& device : list.devices) devices.push_back(pipeline::device_json(device));
    cmf::Json result{{"cpu", cpu_json(pool)}, {"devices", devices}};
    if (list.devices.empty()) result["why_none"] = list.why_none;
    print_json(result);
    return 0;
  }
  std::string text = cpu_line(pool);
  for (const device::DeviceInfo& device : list.devices) text += device_lines(device);
  if (list.devices.empty()) text += fmt::format("no Vulkan device: {}\n", list.why_none);
  print(text);
  return 0;
}

}  // namespace

void add_devices(CLI::App& app, const CommonOptions& common, Action& action) {
  CLI::App* command = app.add_subcommand("devices", "Show what this machine offers");
  const auto options = std::make_shared<DevicesOptions>();
  command->add_flag("--json", options->json, "Result as JSON");
  command->add_flag("--shaders", options->shaders, "The kernels that were built in, instead of the devices");
  command->callback([options, &common, &action] {
    action = [options, &common] {
      Session session(common);
      if (options->shaders) return show_shaders(options->json);
      return show_devices(session.context().pool, options->json);
    };
  });
}

}  // namespace cortiq::app
