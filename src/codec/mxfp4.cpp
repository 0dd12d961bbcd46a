// mxfp4: 4-bit floats on the grid {0, .5, 1, 1.5, 2, 3, 4, 6} with a power-of-two scale per 32
// (cmf.md section 4).
#include <array>
#include <bit>

#include "row_source.hpp"
#include "scalar_math.hpp"

namespace cortiq::codec {

namespace {

/// 2^(e-127); the least exponent is subnormal in f32, the greatest stands for NaN.
[[nodiscard]] float power_scale(std::uint8_t e) noexcept {
  if (e == 255) return std::bit_cast<float>(0x7FC00000U);
  return std::bit_cast<float>(e == 0 ? 0x00400000U : static_cast<std::uint32_t>(e) << 23);
}

constexpr std::array<float, 16> kValues = {0.0F,  0.5F,  1.0F,  1.5F,  2.0F,  3.0F,  4.0F,  6.0F,
                                           -0.0F, -0.5F, -1.0F, -1.5F, -2.0F, -3.0F, -4.0F, -6.0F};

class Mxfp4Source final : public RowSource {
 public:
  Mxfp4Source(Dims dims, ByteSpan payload)
      : RowSource(dims),
        codes_(reinterpret_cast<const std::uint8_t*>(payload.data())),
        scales_(codes_ + dims.rows * (dims.cols / 2)) {}

  void decode_row(std::int64_t r, float* out, SimdLevel) const override {
    const std::int64_t groups = dims().cols / kGroup;
    for (std::int64_t g = 0; g < groups; ++g) {
      const std::uint8_t* codes = codes_ + (r * groups + g) * (kGroup / 2);
      const float scale = power_scale(scales_[r * groups + g]);
      for (int k = 0; k < 16; ++k, out += 2) {
        out[0] = kValues[codes[k] & 15U] * scale;
        out[1] = kValues[codes[k] >> 4] * scale;
      }
    }
  }

 private:
  const std::uint8_t* codes_;
  const std::uint8_t* scales_;
};

}  // namespace

RowSourcePtr make_mxfp4_source(Dims dims, ByteSpan payload) {
  return std::make_unique<const Mxfp4Source>(dims, payload);
}

}  // namespace cortiq::codec
