// decode_kernels.hpp: the inner loops of the decoders, one table per instruction set
// (decode_kernels.simd.cpp). Included by kernels that are compiled for newer processors: plain
// declarations only.
#pragma once

#include <cstdint>

namespace cortiq::codec {

struct DecodeKernels {
  /// n halves to f32, exact. in need not be aligned.
  void (*f16)(const void* in, float* out, std::int64_t n) noexcept;
  /// n bf16 words to f32.
  void (*bf16)(const void* in, float* out, std::int64_t n) noexcept;
  /// out = f32(q) * scale
  void (*q8_row)(const std::int8_t* q, float scale, float* out, std::int64_t n) noexcept;
  /// out = (f32(q) * scale) * column[i]
  void (*q8_2f)(const std::int8_t* q, float scale, const float* column, float* out,
                std::int64_t n) noexcept;
  /// 32 values per group g: (nibble - 8) * scales[g]; codes 16 bytes per group, groups code_stride
  /// bytes apart.
  void (*q4)(const std::uint8_t* codes, std::int64_t code_stride, const float* scales, float* out,
             std::int64_t groups) noexcept;
  /// 32 values per group g: (code - 1.5) * scales[g]; codes 8 bytes per group, without gaps.
  void (*q2)(const std::uint8_t* codes, const float* scales, float* out,
             std::int64_t groups) noexcept;
};

namespace portable {
[[nodiscard]] DecodeKernels decode_kernels() noexcept;
}
namespace avx2 {
[[nodiscard]] DecodeKernels decode_kernels() noexcept;
}
namespace avx512 {
[[nodiscard]] DecodeKernels decode_kernels() noexcept;
}

}  // namespace cortiq::codec
