// encode_kernels.hpp: the inner loops of the encoders, one table per instruction set.
// Included by kernels that are compiled for newer processors: plain declarations only.
// "Group" is 32 consecutive weights of a row; arrays of one value per group have `groups` entries.
#pragma once

#include <cstdint>

namespace cortiq::codec {

struct SearchKernels {
  /// Largest magnitude of each group.
  void (*abs_max)(const float* row, float* out, std::int64_t groups) noexcept;
  /// q4tp: rung of least squared error among nominal-2 .. nominal+1, ties to the lower; nominal
  /// where none is finite.
  void (*q4_window)(const float* row, const float* ladder, const std::uint8_t* nominal,
                    std::uint8_t* rungs, std::int64_t groups) noexcept;
  /// q2tp v1: the same over nominal-2 .. nominal+above within 1..31; errors get the least error
  /// (infinity if none).
  void (*q2_window)(const float* row, const float* ladder, const std::uint8_t* nominal, int above,
                    float* errors, std::uint8_t* rungs, std::int64_t groups) noexcept;
  /// q2tp v2: of the 31 scales base*multiple the one of least group error, base where none is. hw
  /// null = all ones.
  void (*q2_place)(const float* row, const float* hw, const float* base, const float* multiples,
                   float* scales, std::int64_t groups) noexcept;
  /// q2tp v2: rung 1..31 of least group error, ties to the lower, and that error.
  void (*q2_rungs)(const float* row, const float* hw, const float* ladder, float* errors,
                   std::uint8_t* rungs, std::int64_t groups) noexcept;
};

struct PackKernels {
  /// Nibbles clamp(rte(w*inverse), -8, 7) + 8; 16 bytes per group, groups out_stride bytes apart.
  void (*q4_multiply)(const float* row, const float* inverse, std::uint8_t* out,
                      std::int64_t out_stride, std::int64_t groups) noexcept;
  /// The same with w/scale.
  void (*q4_divide)(const float* row, const float* scale, std::uint8_t* out,
                    std::int64_t out_stride, std::int64_t groups) noexcept;
  /// Codes clamp(rte(w*inverse + 1.5), 0, 3), 8 bytes per group.
  void (*q2_multiply)(const float* row, const float* inverse, std::uint8_t* out,
                      std::int64_t groups) noexcept;
  /// clamp(rte(w/scale), -128, 127)
  void (*q8_row)(const float* row, float scale, std::int8_t* out, std::int64_t n) noexcept;
  /// clamp(rte((w/column)/scale), -127, 127)
  void (*q8_2f)(const float* row, const float* column, float scale, std::int8_t* out,
                std::int64_t n) noexcept;
  /// Largest magnitude of n values, and of n quotients by column.
  float (*abs_max)(const float* row, std::int64_t n) noexcept;
  float (*abs_max_2f)(const float* row, const float* column, std::int64_t n) noexcept;
  /// f32 to f16 by the format's rule, to n words at out (not aligned).
  void (*f16)(const float* in, void* out, std::int64_t n) noexcept;
  /// f32 to bf16, nearest even.
  void (*bf16)(const float* in, void* out, std::int64_t n) noexcept;
};

namespace portable {
[[nodiscard]] SearchKernels search_kernels() noexcept;
[[nodiscard]] PackKernels pack_kernels() noexcept;
}  // namespace portable
namespace avx2 {
[[nodiscard]] SearchKernels search_kernels() noexcept;
[[nodiscard]] PackKernels pack_kernels() noexcept;
}  // namespace avx2
namespace avx512 {
[[nodiscard]] SearchKernels search_kernels() noexcept;
[[nodiscard]] PackKernels pack_kernels() noexcept;
}  // namespace avx512

}  // namespace cortiq::codec
