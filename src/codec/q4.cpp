// q4_block and q4_tiled: groups of 32 of the flattened tensor, 16 bytes of nibbles and a half scale
// each (cmf.md section 4). q4_block keeps all scales behind all codes, q4_tiled each scale in front
// of its codes.
#include "cortiq/support/half.hpp"
#include "flat_groups.hpp"
#include "kernels.hpp"
#include "row_source.hpp"

namespace cortiq::codec {

namespace {

constexpr std::int64_t kCodeBytes = 16;
constexpr std::int64_t kTileBytes = 18;

class Q4Source final : public RowSource {
 public:
  Q4Source(cmf::DType dtype, Dims dims, ByteSpan payload)
      : RowSource(dims), bytes_(reinterpret_cast<const std::uint8_t*>(payload.data())) {
    if (dtype == cmf::DType::kQ4Tiled) {
      stride_ = kTileBytes;
      codes_ = 2;
      scale_stride_ = kTileBytes;
    } else {
      scales_ = (dims.rows * dims.cols + kGroup - 1) / kGroup * kCodeBytes;
    }
  }

  void decode_row(std::int64_t r, float* out, SimdLevel level) const override {
    const std::int64_t cols = dims().cols;
    const DecodeKernels kernels = decode_kernels(level);
    decode_flat(r * cols, cols, out, [&](std::int64_t g, float* target) {
      const float scale = f16_to_f32(load_le<std::uint16_t>(bytes_ + scales_ + g * scale_stride_));
      kernels.q4(bytes_ + codes_ + g * stride_, stride_, &scale, target, 1);
    });
  }

 private:
  const std::uint8_t* bytes_;
  std::int64_t stride_ = kCodeBytes;
  std::int64_t codes_ = 0;
  std::int64_t scales_ = 0;
  std::int64_t scale_stride_ = 2;
};

}  // namespace

RowSourcePtr make_q4_source(cmf::DType dtype, Dims dims, ByteSpan payload) {
  return std::make_unique<const Q4Source>(dtype, dims, payload);
}

}  // namespace cortiq::codec
