// adapter.hpp: the Vulkan devices of this machine, what they can do and what they lack. The loader
// is opened at run time: without it (or without a driver) the list is empty, with the reason.
#pragma once

#include <cstdint>
#include <memory>
#include <string>
#include <vector>

namespace cortiq::vulkan {

enum class AdapterType { kDiscrete, kIntegrated, kVirtual, kCpu, kOther };

struct Adapter {
  int index = 0;  ///< in the loader's order
  std::string name;
  std::string driver;
  std::string uuid;  ///< 32 hexadecimal digits
  AdapterType type = AdapterType::kOther;
  std::uint32_t api_version = 0;  ///< as VK_MAKE_API_VERSION
  std::uint64_t memory_bytes = 0;
  std::uint64_t budget_bytes = 0;      ///< free for this process now (VK_EXT_memory_budget), else memory_bytes
  std::uint64_t allocation_bytes = 0;  ///< largest single allocation
  std::uint32_t shared_bytes = 0;      ///< per workgroup
  std::uint32_t workgroup_threads = 0;
  std::uint32_t subgroup_size = 0;
  bool budget_known = false;         ///< budget_bytes counts what other programs use
  bool timestamps = false;           ///< the device's clock can be read around commands
  bool cooperative_matrix = false;   ///< f16 x f16 -> f32, 16x16x16, subgroup scope
  std::vector<std::string> missing;  ///< required features that it lacks; empty: usable

  [[nodiscard]] bool usable() const { return missing.empty(); }
};

[[nodiscard]] const char* adapter_type_name(AdapterType type);

struct InstanceOptions {
  bool validation = false;  ///< VK_LAYER_KHRONOS_validation; its messages are counted
};

/// The connection to the loader. Thread safe.
class Instance {
 public:
  /// Throws Error{kDevice}: no loader, no driver, or no validation layer where asked for.
  [[nodiscard]] static std::shared_ptr<Instance> open(const InstanceOptions& options = {});
  ~Instance();
  Instance(const Instance&) = delete;
  Instance& operator=(const Instance&) = delete;

  [[nodiscard]] std::vector<Adapter> adapters() const;
  /// Warnings and errors of the validation layer so far.
  [[nodiscard]] std::vector<std::string> validation_messages() const;

  struct State;
  [[nodiscard]] State& state() const { return *state_; }

 private:
  explicit Instance(std::unique_ptr<State> state);
  std::unique_ptr<State> state_;
};

}  // namespace cortiq::vulkan
