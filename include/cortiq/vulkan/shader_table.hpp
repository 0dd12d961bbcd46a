// shader_table.hpp: the compiled kernels, one enumerator per shaders/*/NAME.comp (generated list).
#pragma once

#include <cstdint>
#include <span>
#include <string_view>

namespace cortiq::vulkan {

enum class Kernel {
#define CORTIQ_KERNEL(camel, name) camel,
#include "kernels.inc"
#undef CORTIQ_KERNEL
  kCount
};

struct ShaderInfo {
  std::string_view name;
  std::span<const std::uint32_t> words;  ///< SPIR-V; empty: no compiler at build time could translate it
};

[[nodiscard]] ShaderInfo shader_info(Kernel kernel);

}  // namespace cortiq::vulkan
