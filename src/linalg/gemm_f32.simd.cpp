#include "packing.hpp"
#include "tile.hpp"

namespace cortiq::linalg::CORTIQ_SIMD {

const Kernels<float>& kernels_f32() {
  static constexpr Kernels<float> kTable{F32::kRows,
                                         kColumns<F32>,
                                         pack<float, F32::kRows>,
                                         pack<float, kColumns<F32>>,
                                         multiply_block<F32, ScaleStore<F32>>,
                                         multiply_block<F32, WidenStore<F32>>,
                                         nullptr};
  return kTable;
}

}  // namespace cortiq::linalg::CORTIQ_SIMD
