// q1 (also written by the encoder q1p) and q1g: one sign per weight, a scale per 32 or 128 (cmf.md
// section 4).
#include "bit_groups.hpp"
#include "cortiq/support/half.hpp"
#include "flat_groups.hpp"
#include "row_source.hpp"

namespace cortiq::codec {

namespace {

constexpr std::int64_t kLargeGroup = 128;  ///< weights per scale of q1g

class Q1Source final : public RowSource {
 public:
  Q1Source(Dims dims, ByteSpan payload)
      : RowSource(dims), bytes_(reinterpret_cast<const std::uint8_t*>(payload.data())) {}

  void decode_row(std::int64_t r, float* out, SimdLevel) const override {
    const std::int64_t cols = dims().cols;
    decode_flat(r * cols, cols, out, [&](std::int64_t g, float* target) {
      const std::uint8_t* group = bytes_ + g * kQ1GroupBytes;
      decode_signs(group + 2, f16_to_f32(load_le<std::uint16_t>(group)), target);
    });
  }

 private:
  const std::uint8_t* bytes_;
};

class Q1gSource final : public RowSource {
 public:
  Q1gSource(Dims dims, ByteSpan payload)
      : RowSource(dims),
        bits_(reinterpret_cast<const std::uint8_t*>(payload.data())),
        scales_(bits_ + dims.rows * (dims.cols / 8)) {}

  void decode_row(std::int64_t r, float* out, SimdLevel) const override {
    const std::int64_t cols = dims().cols;
    for (std::int64_t i = 0; i < cols; i += kGroup) {
      const std::int64_t at = r * cols + i;
      const float scale = f16_to_f32(load_le<std::uint16_t>(scales_ + 2 * (at / kLargeGroup)));
      decode_signs(bits_ + at / 8, scale, out + i);
    }
  }

 private:
  const std::uint8_t* bits_;
  const std::uint8_t* scales_;
};

}  // namespace

RowSourcePtr make_q1_source(cmf::DType dtype, Dims dims, ByteSpan payload) {
  if (dtype == cmf::DType::kQ1g) return std::make_unique<const Q1gSource>(dims, payload);
  return std::make_unique<const Q1Source>(dims, payload);
}

}  // namespace cortiq::codec
