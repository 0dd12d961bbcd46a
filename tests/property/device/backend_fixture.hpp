// backend_fixture.hpp: the device backend through its public interface on the device of the tests, and the host beside it.
// CORTIQ_TEST_DEVICE chooses the device by index; without a usable one the test is skipped with the reason.
#pragma once

#include <gtest/gtest.h>

#include <cstdlib>
#include <memory>
#include <string>
#include <vector>

#include "cortiq/device/devices.hpp"
#include "device_fixture.hpp"
#include "random_problem.hpp"

namespace cortiq::device::test {

/// A Hessian and the weights of tensors that share it.
struct Group {
  std::int64_t n = 0;
  Matrix64 h;
  std::vector<std::vector<float>> tensors;
  std::vector<std::int64_t> rows;

  Group(std::int64_t width, std::vector<std::int64_t> heights, std::uint32_t seed)
      : n(width), h(random_hessian(width, 2 * width, 8.0, seed)), rows(std::move(heights)) {
    for (const std::int64_t r : rows) tensors.push_back(random_weights(r, n, seed + 100 + static_cast<std::uint32_t>(r)));
  }
  [[nodiscard]] std::vector<gptq::SweepJob> jobs(const gptq::SweepOptions& options) const {
    std::vector<gptq::SweepJob> list;
    for (std::size_t t = 0; t < tensors.size(); ++t) list.push_back({"tensor", {tensors[t].data(), rows[t], n}, options});
    return list;
  }
};

using Payloads = std::vector<std::vector<std::byte>>;

inline Payloads payloads_of(const std::vector<gptq::SweepResult>& results) {
  Payloads payloads;
  for (const gptq::SweepResult& result : results) payloads.push_back(result.payload);
  return payloads;
}

class BackendTest : public ::testing::Test {
 protected:
  void SetUp() override {
    const DeviceList list = list_devices();
    const char* wanted = std::getenv("CORTIQ_TEST_DEVICE");
    for (const DeviceInfo& device : list.devices) {
      if (wanted != nullptr && std::to_string(device.index) != wanted) continue;
      if (device.missing.empty() && choice_.devices.empty()) choice_.devices.push_back(device);
    }
    if (choice_.devices.empty()) {
      GTEST_SKIP() << "no usable Vulkan device (mesa-vulkan-drivers has a software one): " << list.why_none;
    }
    host_ = gptq::make_host_backend(pool_);
  }

  std::unique_ptr<DeviceBackend> make(std::uint64_t memory_limit = 0, int in_flight = 3) {
    log_ = std::make_unique<MemoryLog>();
    return make_device_backend(choice_, {.cache_folder = kernel_cache(), .memory_limit = memory_limit, .in_flight = in_flight}, pool_, *log_);
  }

  static Payloads run(gptq::Backend& backend, const Group& group, const gptq::SweepOptions& options) {
    const auto factor = backend.fold(group.h.view(), fold_options(options));
    return payloads_of(backend.sweep_group(group.jobs(options), group.h.view(), *factor));
  }

  static gptq::FoldOptions fold_options(const gptq::SweepOptions& options) {
    return {.lambda = 0.01, .order = options.order, .keep_damped = options.polish > 0};
  }

  [[nodiscard]] std::vector<std::string> warnings() const {
    std::vector<std::string> list;
    for (const auto& [level, text] : log_->lines)
      if (level == LogLevel::kWarning) list.push_back(text);
    return list;
  }

  Pool pool_{2};
  Choice choice_;
  std::unique_ptr<MemoryLog> log_;
  std::unique_ptr<gptq::Backend> host_;
};

}  // namespace cortiq::device::test
