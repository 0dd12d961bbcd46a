// cpu.hpp: which instruction set the hot kernels use. Detected once per process, forceable through
// Pool.
#pragma once

#include <optional>
#include <string_view>

namespace cortiq {

enum class SimdLevel { kPortable = 0, kAvx2 = 1, kAvx512 = 2 };

/// Highest level that this processor and this build support (always kPortable off x86-64).
[[nodiscard]] SimdLevel detect_simd() noexcept;
[[nodiscard]] std::string_view simd_name(SimdLevel level) noexcept;
/// "portable", "avx2", "avx512"; nullopt for anything else.
[[nodiscard]] std::optional<SimdLevel> try_parse_simd(std::string_view name) noexcept;

}  // namespace cortiq

/// CORTIQ_SIMD_DISPATCH(pool.simd(), kernel, args…) calls kernel of namespace portable, avx2 or
/// avx512 (see cmake/CortiqModule.cmake). The three declarations must be visible; off x86-64 only
/// portable is called.
#if defined(__x86_64__)
#define CORTIQ_SIMD_DISPATCH(level, kernel, ...)                         \
  ((level) == ::cortiq::SimdLevel::kAvx512 ? avx512::kernel(__VA_ARGS__) \
   : (level) == ::cortiq::SimdLevel::kAvx2 ? avx2::kernel(__VA_ARGS__)   \
                                           : portable::kernel(__VA_ARGS__))
#else
#define CORTIQ_SIMD_DISPATCH(level, kernel, ...) portable::kernel(__VA_ARGS__)
#endif
