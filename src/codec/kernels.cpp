#include "kernels.hpp"

namespace cortiq::codec {

namespace {

using DecodeTable = DecodeKernels (*)() noexcept;
using SearchTable = SearchKernels (*)() noexcept;
using PackTable = PackKernels (*)() noexcept;

struct Tables {
  DecodeTable decode;
  SearchTable search;
  PackTable pack;
};

Tables tables(SimdLevel level) noexcept {
#if defined(__x86_64__)
  if (level == SimdLevel::kAvx512) {
    return {avx512::decode_kernels, avx512::search_kernels, avx512::pack_kernels};
  }
  if (level == SimdLevel::kAvx2)
    return {avx2::decode_kernels, avx2::search_kernels, avx2::pack_kernels};
#else
  static_cast<void>(level);
#endif
  return {portable::decode_kernels, portable::search_kernels, portable::pack_kernels};
}

}  // namespace

DecodeKernels decode_kernels(SimdLevel level) noexcept { return tables(level).decode(); }
SearchKernels search_kernels(SimdLevel level) noexcept { return tables(level).search(); }
PackKernels pack_kernels(SimdLevel level) noexcept { return tables(level).pack(); }

}  // namespace cortiq::codec
