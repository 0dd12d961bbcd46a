#include <algorithm>
#include <charconv>

#include "cortiq/device/devices.hpp"
#include "cortiq/vulkan/context.hpp"
#include "cortiq/vulkan/shader_table.hpp"
#include "engine.hpp"

namespace cortiq::device {

namespace {

bool has_cooperative_kernels() {
  return !vulkan::shader_info(vulkan::Kernel::kOperandGemmCoop).words.empty();
}

std::vector<std::string> features_of(const vulkan::Adapter& adapter) {
  std::vector<std::string> features;
  if (!adapter.usable()) return features;
  if (!adapter.cooperative_matrix) {
    features.emplace_back("no cooperative matrices of f16, 16 x 16 x 16: matrix products in f32");
  } else if (!has_cooperative_kernels()) {
    features.emplace_back(
        "cooperative matrices, but no kernels for them in this build (`devices --shaders` says why): "
        "matrix products in f32");
  } else if (!Engine::cooperative_possible(adapter)) {
    features.push_back(fmt::format("cooperative matrices, but only {} KiB of shared memory a workgroup: matrix products in f32",
                                   adapter.shared_bytes / 1024));
  } else {
    features.emplace_back("cooperative matrices: matrix products of two halves a value, about twice as fast as f32");
  }
  features.emplace_back(adapter.budget_known
                            ? "memory budget: what other programs use is left to them"
                            : "no memory budget: all of its memory counts as free (--vram-gb sets less)");
  features.emplace_back(adapter.timestamps ? "clock: reports tell how long it computed"
                                           : "no clock: reports tell no times of the device");
  return features;
}

DeviceInfo info_of(const vulkan::Adapter& adapter) {
  DeviceInfo info;
  info.index = adapter.index;
  info.name = adapter.name;
  info.driver = adapter.driver;
  info.uuid = adapter.uuid;
  info.type = vulkan::adapter_type_name(adapter.type);
  info.api = fmt::format("{}.{}.{}", adapter.api_version >> 22 & 0x7fU,
                         adapter.api_version >> 12 & 0x3ffU, adapter.api_version & 0xfffU);
  info.memory_bytes = adapter.memory_bytes;
  info.available_bytes = adapter.budget_bytes;
  info.shared_bytes = adapter.shared_bytes;
  info.subgroup_size = adapter.subgroup_size;
  info.cooperative_matrix = Engine::cooperative_possible(adapter);
  info.missing = adapter.missing;
  info.features = features_of(adapter);
  return info;
}

bool is_hardware(const DeviceInfo& device) {
  return device.type == "discrete" || device.type == "integrated" || device.type == "virtual";
}

std::string lower(std::string_view text) {
  std::string result(text);
  std::transform(result.begin(), result.end(), result.begin(),
                 [](unsigned char c) { return static_cast<char>(c >= 'A' && c <= 'Z' ? c + 32 : c); });
  return result;
}

std::string known_devices(const DeviceList& list) {
  if (list.devices.empty()) return list.why_none;
  std::string text = "there are";
  for (const DeviceInfo& device : list.devices)
    text += fmt::format(" {}: {};", device.index, device.name);
  text.pop_back();
  return text;
}

/// Index, UUID, or part of the name of exactly one device.
const DeviceInfo& find_device(const DeviceList& list, std::string_view which) {
  int index = -1;
  const auto [end, error] = std::from_chars(which.data(), which.data() + which.size(), index);
  const bool is_index = error == std::errc{} && end == which.data() + which.size();
  std::vector<const DeviceInfo*> hits;
  for (const DeviceInfo& device : list.devices) {
    const bool by_name = lower(device.name).find(lower(which)) != std::string::npos;
    if (is_index ? device.index == index : device.uuid == lower(which) || by_name)
      hits.push_back(&device);
  }
  if (hits.empty()) {
    fail(ErrorKind::kDevice, "--device vulkan:{}: no such device; {} (see `cortiq-quant devices`)",
         which, known_devices(list));
  }
  if (hits.size() > 1) {
    fail(ErrorKind::kUsage, "--device vulkan:{}: {} devices have this in their name; give the index",
         which, hits.size());
  }
  return *hits.front();
}

void check_usable(const DeviceInfo& device) {
  if (device.missing.empty()) return;
  std::string missing;
  for (const std::string& feature : device.missing)
    missing += (missing.empty() ? "" : ", ") + feature;
  fail(ErrorKind::kDevice, "device {} ({}): lacks {}; use another one or --device cpu", device.index,
       device.name, missing);
}

Choice choose_auto(const DeviceList& list) {
  for (const DeviceInfo& device : list.devices) {
    if (device.missing.empty() && is_hardware(device))
      return {{device}, fmt::format("{} found", device.name)};
  }
  if (list.devices.empty()) return {{}, list.why_none};
  const DeviceInfo& first = list.devices.front();
  if (!first.missing.empty())
    return {{}, fmt::format("{} lacks {}", first.name, first.missing.front())};
  return {{}, fmt::format("only a software device is there ({})", first.name)};
}

}  // namespace

DeviceList list_devices() {
  DeviceList list;
  try {
    for (const vulkan::Adapter& adapter : vulkan::Instance::open()->adapters())
      list.devices.push_back(info_of(adapter));
    if (list.devices.empty()) list.why_none = "the Vulkan loader knows no device";
  } catch (const Error& error) {
    list.why_none = error.what();
  }
  return list;
}

std::vector<KernelInfo> list_kernels() {
  std::vector<KernelInfo> kernels;
  for (int i = 0; i < static_cast<int>(vulkan::Kernel::kCount); ++i) {
    const vulkan::ShaderInfo shader = vulkan::shader_info(static_cast<vulkan::Kernel>(i));
    kernels.push_back({std::string(shader.name), shader.words.size_bytes(), shader.name.ends_with("_coop")});
  }
  return kernels;
}

Choice choose_devices(std::string_view text) {
  if (text == "cpu") return {{}, "--device cpu"};
  const bool any = text == "auto" || text == "vulkan";
  if (!any && !(text.starts_with("vulkan:") && text.size() > 7)) {
    fail(ErrorKind::kUsage, "--device {}: expected auto, cpu or vulkan[:index|:name][,…]", text);
  }
  const DeviceList list = list_devices();
  if (text == "auto") return choose_auto(list);
  if (list.devices.empty())
    fail(ErrorKind::kDevice, "--device {}: {}; use --device cpu", text, list.why_none);
  Choice choice{{}, fmt::format("--device {}", text)};
  if (text == "vulkan") {
    choice.devices.push_back(list.devices.front());
  } else {
    for (std::string_view rest = text.substr(7); !rest.empty();) {
      const std::size_t comma = std::min(rest.find(','), rest.size());
      const DeviceInfo& found = find_device(list, rest.substr(0, comma));
      for (const DeviceInfo& other : choice.devices)
        if (other.index == found.index) fail(ErrorKind::kUsage, "--device {}: {} is named twice", text, found.name);
      choice.devices.push_back(found);
      rest.remove_prefix(std::min(comma + 1, rest.size()));
    }
  }
  for (const DeviceInfo& device : choice.devices) {
    check_usable(device);
    // Codes depend on the model of the card; which card takes a group depends on the clock.
    if (device.name != choice.devices.front().name || device.driver != choice.devices.front().driver) {
      fail(ErrorKind::kUsage,
           "--device {}: {} and {} would write different bytes; choose devices of one model", text,
           choice.devices.front().name, device.name);
    }
  }
  return choice;
}

}  // namespace cortiq::device
