#include "cortiq/vulkan/shader_table.hpp"

#include <array>
#include <cstddef>

#include "cortiq/support/error.hpp"

namespace cortiq::vulkan {

namespace spirv {
#define CORTIQ_KERNEL(camel, name)     \
  extern const std::uint32_t name[];   \
  extern const std::size_t name##_words;
#include "kernels.inc"
#undef CORTIQ_KERNEL
}  // namespace spirv

ShaderInfo shader_info(Kernel kernel) {
  switch (kernel) {
#define CORTIQ_KERNEL(camel, name) \
  case Kernel::camel:              \
    return {#name, {spirv::name, spirv::name##_words}};
#include "kernels.inc"
#undef CORTIQ_KERNEL
    case Kernel::kCount:
      break;
  }
  CORTIQ_ASSERT(false);
  return {};
}

}  // namespace cortiq::vulkan
