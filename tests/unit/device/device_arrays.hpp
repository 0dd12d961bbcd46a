// device_arrays.hpp: vectors to and from device memory, and outputs poisoned with NaN.
#pragma once

#include <cstdint>
#include <span>
#include <vector>

#include "engine.hpp"

namespace cortiq::device::test {

class DeviceArrays {
 public:
  explicit DeviceArrays(std::shared_ptr<vulkan::Context> context)
      : engine(context, Path::kPlain), stream(std::move(context)), pool_(1) {}

  template <typename T>
  vulkan::Buffer upload(const std::vector<T>& values) {
    const auto bytes = std::as_bytes(std::span(values));
    vulkan::Buffer buffer = engine.device_buffer(static_cast<std::int64_t>(bytes.size()));
    Upload(engine, stream, pool_).bytes(buffer, bytes);
    stream.finish();
    return buffer;
  }

  /// `words` words of NaN, and a few more that nobody may write.
  vulkan::Buffer poisoned(std::int64_t words) {
    vulkan::Buffer buffer = engine.device_buffer(4 * (words + kGuardWords));
    stream.fill(buffer, 0, buffer.bytes(), kPoison);
    stream.finish();
    return buffer;
  }

  /// The words of a poisoned buffer; empty if the guard was written.
  std::vector<std::uint32_t> words(const vulkan::Buffer& buffer) {
    std::vector<std::uint32_t> all(static_cast<std::size_t>(buffer.bytes() / 4));
    download(engine, stream, buffer, 0, std::as_writable_bytes(std::span(all)));
    for (std::int64_t i = 0; i < kGuardWords; ++i) {
      if (all.back() != kPoison) return {};
      all.pop_back();
    }
    return all;
  }

  static constexpr std::uint32_t kPoison = 0x7FC0DEADU;

  Engine engine;
  vulkan::Stream stream;

 private:
  static constexpr std::int64_t kGuardWords = 4;
  Pool pool_;
};

}  // namespace cortiq::device::test
