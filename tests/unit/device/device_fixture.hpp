// device_fixture.hpp: the device that the tests run on: the first usable one, or the one whose index stands in
// CORTIQ_TEST_DEVICE. Without any the test is skipped with the reason. CORTIQ_TEST_VALIDATION=1 switches the validation
// layer on; each of its messages is a failure.
#pragma once

#include <gtest/gtest.h>

#include <cstdlib>
#include <filesystem>
#include <memory>
#include <set>
#include <string>
#include <vector>

#include "cortiq/support/error.hpp"
#include "engine.hpp"

namespace cortiq::device::test {

/// Compiled kernels of earlier test programs (Mesa's software device keeps its own in the user's cache folder).
inline std::filesystem::path kernel_cache() {
  return std::filesystem::temp_directory_path() / "cortiq-quant-test-kernels";
}

class DeviceTest : public ::testing::Test {
 protected:
  void SetUp() override {
    try {
      const char* validation = std::getenv("CORTIQ_TEST_VALIDATION");
      instance_ = vulkan::Instance::open({.validation = validation != nullptr && *validation == '1'});
    } catch (const Error& error) {
      GTEST_SKIP() << "no device: " << error.what();
    }
    const char* wanted = std::getenv("CORTIQ_TEST_DEVICE");
    for (const vulkan::Adapter& adapter : instance_->adapters()) {
      if (wanted != nullptr && std::to_string(adapter.index) != wanted) continue;
      if (!adapter.usable()) continue;
      context_ = vulkan::Context::open(instance_, adapter, {.cache_folder = kernel_cache()});
      break;
    }
    if (!context_) GTEST_SKIP() << "no usable Vulkan device (mesa-vulkan-drivers has a software one)";
  }

  void TearDown() override {
    context_.reset();
    if (!instance_) return;
    const auto messages = instance_->validation_messages();
    for (const std::string& message : std::set<std::string>(messages.begin(), messages.end())) ADD_FAILURE() << message;
  }

  /// Every arithmetic that the device has.
  [[nodiscard]] std::vector<Path> paths() const {
    std::vector<Path> list{Path::kPlain};
    if (Engine::cooperative_possible(*context_)) list.push_back(Path::kCooperative);
    return list;
  }

  std::shared_ptr<vulkan::Instance> instance_;
  std::shared_ptr<vulkan::Context> context_;
};

}  // namespace cortiq::device::test
