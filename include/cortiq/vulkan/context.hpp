// context.hpp: one opened device: memory, pipelines, streams of commands. Knows nothing of GPTQ.
// Shaders get everything by push constants (at most 128 bytes) that hold 64-bit buffer addresses.
#pragma once

#include <array>
#include <cstddef>
#include <cstdint>
#include <filesystem>
#include <memory>
#include <optional>
#include <span>
#include <string>
#include <vector>

#include "cortiq/vulkan/adapter.hpp"
#include "cortiq/vulkan/shader_table.hpp"

namespace cortiq::vulkan {

struct ContextOptions {
  std::optional<std::filesystem::path> cache_folder;  ///< where compiled pipelines are kept
  std::uint64_t memory_limit = 0;                     ///< bytes, 0 = what the driver offers
};

/// Where a buffer lies: kDevice is not mapped; kUpload is written, kReadback read by the host.
enum class MemoryKind { kDevice, kUpload, kReadback };

class Context;

/// Memory with a 64-bit address. Movable; the memory returns to the context for reuse.
class Buffer {
 public:
  Buffer();
  Buffer(Buffer&& other) noexcept;
  Buffer& operator=(Buffer&& other) noexcept;
  ~Buffer();

  [[nodiscard]] bool empty() const { return block_ == nullptr; }
  [[nodiscard]] std::uint64_t bytes() const { return bytes_; }
  [[nodiscard]] std::uint64_t address() const;
  /// kUpload and kReadback only.
  [[nodiscard]] std::byte* mapped() const;

  struct Block;
  [[nodiscard]] Block& block() const { return *block_; }

 private:
  friend class Context;
  std::shared_ptr<Context> context_;
  std::unique_ptr<Block> block_;
  std::uint64_t bytes_ = 0;
};

class Pipeline;  ///< a kernel with its constants; owned by the context
class Stream;

/// Thread safe.
class Context : public std::enable_shared_from_this<Context> {
 public:
  /// @param adapter  of instance->adapters(); usable. Throws Error{kDevice}.
  [[nodiscard]] static std::shared_ptr<Context> open(std::shared_ptr<Instance> instance,
                                                     const Adapter& adapter,
                                                     const ContextOptions& options = {});
  ~Context();
  Context(const Context&) = delete;
  Context& operator=(const Context&) = delete;

  [[nodiscard]] const Adapter& adapter() const;
  /// The kernel was compiled and the device has what it needs.
  [[nodiscard]] bool has(Kernel kernel) const;

  /// Throws Error{kOutOfMemory} with the sizes involved.
  [[nodiscard]] Buffer allocate(std::uint64_t bytes, MemoryKind kind);
  /// Device bytes held by live buffers, and the most that there were.
  [[nodiscard]] std::uint64_t bytes_in_use() const;
  [[nodiscard]] std::uint64_t peak_bytes() const;
  /// Device bytes that can still be allocated.
  [[nodiscard]] std::uint64_t bytes_available() const;

  /// Specialization constants 0, 1, 2… of the kernel. Compiles at the first call, else returns the
  /// one made before. Constant 0 is by convention the number of threads of a workgroup.
  [[nodiscard]] const Pipeline& pipeline(Kernel kernel, std::span<const std::uint32_t> constants);
  /// Writes the compiled pipelines to the cache folder (also done at the end).
  void save_pipeline_cache();

  /// For tests: from now on the allocation or submission number `after` fails (0 = the next one).
  void inject_out_of_memory(int after);
  void inject_device_lost(int after);

  struct State;
  [[nodiscard]] State& state() const { return *state_; }

 private:
  explicit Context(std::unique_ptr<State> state);
  friend class Buffer;
  void give_back(std::unique_ptr<Buffer::Block> block);
  std::unique_ptr<State> state_;
};

}  // namespace cortiq::vulkan
