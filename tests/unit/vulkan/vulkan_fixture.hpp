// vulkan_fixture.hpp: an opened device without any of the kernels of GPTQ: the first usable one, or the one whose index
// stands in CORTIQ_TEST_DEVICE. Skipped with the reason where there is none. CORTIQ_TEST_VALIDATION=1 switches the
// validation layer on; each of its messages is a failure.
#pragma once

#include <gtest/gtest.h>

#include <cstdlib>
#include <cstring>
#include <memory>
#include <optional>
#include <set>
#include <string>
#include <vector>

#include "cortiq/support/error.hpp"
#include "cortiq/vulkan/stream.hpp"

namespace cortiq::vulkan::test {

class VulkanTest : public ::testing::Test {
 protected:
  void SetUp() override {
    try {
      const char* validation = std::getenv("CORTIQ_TEST_VALIDATION");
      instance_ = Instance::open({.validation = validation != nullptr && *validation == '1'});
    } catch (const Error& error) {
      GTEST_SKIP() << "no device: " << error.what();
    }
    const char* wanted = std::getenv("CORTIQ_TEST_DEVICE");
    for (const Adapter& adapter : instance_->adapters()) {
      if (wanted != nullptr && std::to_string(adapter.index) != wanted) continue;
      if (adapter.usable() && !adapter_) adapter_ = adapter;
    }
    if (!adapter_) GTEST_SKIP() << "no usable Vulkan device (mesa-vulkan-drivers has a software one)";
    context_ = Context::open(instance_, *adapter_);
  }

  void TearDown() override {
    context_.reset();
    if (!instance_) return;
    const auto messages = instance_->validation_messages();
    for (const std::string& message : std::set<std::string>(messages.begin(), messages.end())) ADD_FAILURE() << message;
  }

  /// The words of a device buffer.
  std::vector<std::uint32_t> read(Stream& stream, const Buffer& buffer) {
    const Buffer staging = context_->allocate(buffer.bytes(), MemoryKind::kReadback);
    stream.barrier();
    stream.copy(buffer, 0, staging, 0, buffer.bytes());
    stream.finish();
    std::vector<std::uint32_t> words(buffer.bytes() / 4);
    std::memcpy(words.data(), staging.mapped(), 4 * words.size());
    return words;
  }

  /// The kind of the Error that `work` throws, and its message in message_.
  template <typename Work>
  std::optional<ErrorKind> error_of(const Work& work) {
    try {
      work();
    } catch (const Error& error) {
      message_ = error.what();
      return error.kind();
    }
    return std::nullopt;
  }

  std::shared_ptr<Instance> instance_;
  std::optional<Adapter> adapter_;
  std::shared_ptr<Context> context_;
  std::string message_;
};

}  // namespace cortiq::vulkan::test
