// mxfp4: 4-bit floats on the grid {0, .5, 1, 1.5, 2, 3, 4, 6} with a power-of-two scale per 32
// (cmf.md section 4, codecs.md section 9).
#include <array>
#include <bit>
#include <cmath>

#include "encoders.hpp"
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

constexpr int kLargestExponent = 2;  ///< of the grid's greatest value, 6

/// Midpoints of the grid; a value on one goes to the neighbour of even index.
constexpr std::array<double, 7> kMidpoints = {0.25, 0.75, 1.25, 1.75, 2.5, 3.5, 5.0};

unsigned grid_index(double magnitude) noexcept {
  unsigned index = 0;
  for (const double midpoint : kMidpoints) {
    const bool upper_is_even = index % 2 == 1;
    if (magnitude < midpoint || (magnitude == midpoint && !upper_is_even)) break;
    ++index;
  }
  return index;
}

unsigned grid_code(float w, double unit) noexcept {
  const double q = static_cast<double>(w) * unit;
  const unsigned index = grid_index(std::fabs(q));
  return index | (q < 0.0 && index != 0 ? 8U : 0U);
}

/// Writes 16 bytes of codes, returns the scale byte.
std::uint8_t encode_group(const float* group, std::uint8_t* out) noexcept {
  const float largest = abs_max(group, kGroup);
  if (largest == 0.0F) return 0;
  const int e = std::clamp(std::ilogb(largest) - kLargestExponent, -127, 127);
  const double unit = std::ldexp(1.0, -e);
  for (std::int64_t k = 0; k < kGroup / 2; ++k) {
    const unsigned low = grid_code(group[2 * k], unit);
    out[k] = static_cast<std::uint8_t>(low | (grid_code(group[2 * k + 1], unit) << 4));
  }
  return static_cast<std::uint8_t>(e + 127);
}

}  // namespace

Payload encode_mxfp4(Weights w, Pool& pool) {
  const std::int64_t groups = w.cols() / kGroup;
  const std::int64_t scales = w.rows() * groups * (kGroup / 2);
  Payload payload = make_payload(scales + w.rows() * groups);
  pool.for_ranges(w.rows(), row_grain(w), [&](std::int64_t begin, std::int64_t end) {
    for (std::int64_t g = begin * groups; g < end * groups; ++g) {
      const float* group = w.row(g / groups) + g % groups * kGroup;
      *bytes_at(payload, scales + g) = encode_group(group, bytes_at(payload, g * (kGroup / 2)));
    }
  });
  return payload;
}

RowSourcePtr make_mxfp4_source(Dims dims, ByteSpan payload) {
  return std::make_unique<const Mxfp4Source>(dims, payload);
}

}  // namespace cortiq::codec
