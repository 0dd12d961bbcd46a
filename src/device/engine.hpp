// engine.hpp: an opened device with the kernels of the fold and the sweep: which of them run on it, their
// constants, and helpers for operands (layout.h) and transfers.
#pragma once

#include <cstdint>
#include <functional>
#include <memory>
#include <span>
#include <vector>

#include "cortiq/support/parallel.hpp"
#include "cortiq/support/view.hpp"
#include "cortiq/vulkan/stream.hpp"
#include "layout.h"

namespace cortiq::device {

/// Arithmetic of the matrix products.
enum class Path {
  kPlain,        ///< f32 fused multiply-add, every device
  kCooperative,  ///< two f16 halves per value on cooperative matrices
};

/// A matrix [rows, 32 * chunks] as operand lines.
struct Operand {
  vulkan::Buffer lines;
  std::int64_t rows = 0;
  std::int64_t chunks = 0;
  float scale = 1;  ///< of the split; 1 when plain
  [[nodiscard]] std::uint64_t line(std::int64_t row, std::int64_t chunk) const {
    return lines.address() + 128U * static_cast<std::uint64_t>(chunk * rows + row);
  }
};

/// One product of operands; see GemmPush.
struct Product {
  const Operand* a = nullptr;
  std::int64_t a_row = 0;
  std::int64_t a_chunk = 0;
  const Operand* b = nullptr;
  std::int64_t b_row = 0;
  std::int64_t b_chunk = 0;
  std::uint64_t c = 0;         ///< address of the first element
  std::int64_t c_stride = 0;
  std::int64_t m = 0, n = 0, k = 0;  ///< multiples of 128, 128, 32
  std::uint32_t flags = 0;
  std::int64_t row0 = 0, col0 = 0, k0 = 0;
  double alpha = 1;            ///< without the scales of the operands
  bool from_c = false;         ///< with kGemmAdd and alpha a power of two: where there are few tiles, the sums may start from C
                               ///< (more exact, but then bytes depend on the number of tiles)
  bool high_only = false;      ///< 11 bits of each operand are enough (cooperative path; a third of the work)
};

[[nodiscard]] inline std::int64_t padded(std::int64_t n) {
  return (n + layout::kTile - 1) / layout::kTile * layout::kTile;
}

class Engine {
 public:
  /// @param path  kCooperative only where cooperative_possible(*context)
  Engine(std::shared_ptr<vulkan::Context> context, Path path);

  [[nodiscard]] static bool cooperative_possible(const vulkan::Context& context);
  /// The same of a device that is not open.
  [[nodiscard]] static bool cooperative_possible(const vulkan::Adapter& adapter);
  [[nodiscard]] vulkan::Context& context() const { return *context_; }
  [[nodiscard]] const std::shared_ptr<vulkan::Context>& shared_context() const { return context_; }
  [[nodiscard]] Path path() const { return path_; }
  [[nodiscard]] bool split() const { return path_ == Path::kCooperative; }

  [[nodiscard]] vulkan::Buffer device_buffer(std::int64_t bytes) const;
  [[nodiscard]] Operand make_operand(std::int64_t rows, std::int64_t k, float scale) const;
  /// Constants 0 = threads, then `more`.
  [[nodiscard]] const vulkan::Pipeline& pipeline(vulkan::Kernel kernel, std::uint32_t threads,
                                                 std::span<const std::uint32_t> more = {}) const;
  /// Records the product (no barrier) and accounts its arithmetic.
  void multiply(vulkan::Stream& stream, const Product& product) const;
  /// For a symmetric B, half of the work: C with sum_j a_j C_j = a^T B a for each row a of A and its row of C. Blocks of
  /// 128 x 128 of B below the diagonal count twice, those above it not at all. Product without flags; records a barrier
  /// between its two parts.
  void multiply_half(vulkan::Stream& stream, const Product& product) const;

 private:
  /// The kernel of a product and its tiles of C.
  struct Tiling {
    const vulkan::Pipeline& kernel;
    std::int64_t rows, columns;
  };
  [[nodiscard]] Tiling tiling(const Product& p) const;

  std::shared_ptr<vulkan::Context> context_;
  Path path_;
};

/// Largest power of two s with s * bound <= 32768, at most `limit`.
[[nodiscard]] float split_scale(double bound, float limit);

/// Largest |m_ij|; m finite.
[[nodiscard]] float largest_magnitude(ConstMatrixView<float> m, Pool& pool);

/// Copies host data to the device through two staging buffers. fill(begin, end, out) writes rows
/// [begin, end) to out and may run on several threads; row_bytes(r) are multiples of 4.
class Upload {
 public:
  using RowBytes = std::function<std::uint64_t(std::int64_t)>;
  using Fill = std::function<void(std::int64_t row, std::byte* out)>;
  Upload(const Engine& engine, vulkan::Stream& stream, Pool& pool);
  void rows(const vulkan::Buffer& to, std::int64_t rows, const RowBytes& row_bytes, const Fill& fill);
  void bytes(const vulkan::Buffer& to, std::span<const std::byte> data);
  /// A device buffer with these values.
  template <typename T>
  [[nodiscard]] vulkan::Buffer vector(const std::vector<T>& values) {
    vulkan::Buffer buffer = engine_.device_buffer(static_cast<std::int64_t>(values.size() * sizeof(T)));
    bytes(buffer, std::as_bytes(std::span(values)));
    return buffer;
  }

 private:
  void stage(std::uint64_t bytes, const std::function<void(std::byte*)>& fill,
             const vulkan::Buffer& to, std::uint64_t offset);
  const Engine& engine_;
  vulkan::Stream& stream_;
  Pool& pool_;
  vulkan::Buffer staging_[2];
  int next_ = 0;
  std::uint64_t pending_[2] = {0, 0};  ///< submission that reads the staging buffer
};

/// Copies bytes back (waits for the stream).
void download(const Engine& engine, vulkan::Stream& stream, const vulkan::Buffer& from,
              std::uint64_t offset, std::span<std::byte> out);

}  // namespace cortiq::device
