#include "kernels.hpp"

namespace cortiq::codec {

DecodeKernels decode_kernels(SimdLevel level) noexcept {
#if defined(__x86_64__)
  if (level == SimdLevel::kAvx512) return avx512::decode_kernels();
  if (level == SimdLevel::kAvx2) return avx2::decode_kernels();
#else
  static_cast<void>(level);
#endif
  return portable::decode_kernels();
}

}  // namespace cortiq::codec
