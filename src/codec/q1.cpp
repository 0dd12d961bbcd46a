// q1 (also written by the encoder q1p) and q1g: one sign per weight, a scale per 32 or 128 (cmf.md
// section 4, codecs.md section 7).
#include <algorithm>

#include "bit_groups.hpp"
#include "cortiq/support/half.hpp"
#include "encoders.hpp"
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

void encode_row(const float* row, std::int64_t groups, bool with_carry,
                std::uint8_t* out) noexcept {
  float carry = 0.0F;
  for (std::int64_t g = 0; g < groups; ++g, row += kGroup, out += kQ1GroupBytes) {
    const std::uint16_t half = f16_scale_bits(abs_sum(row, kGroup) / 32.0F);
    const float scale = f16_to_f32(half);
    store_le(out, half);
    for (std::int64_t i = 0; i < kGroup; ++i) {
      const float value = with_carry ? row[i] + carry : row[i];
      const bool positive = value >= 0.0F;
      carry = value - (positive ? scale : -scale);
      if (positive) set_sign(out + 2, i);
    }
  }
}

}  // namespace

Payload encode_q1(Weights w, bool carry, Pool& pool) {
  const std::int64_t groups = w.cols() / kGroup;
  Payload payload = make_payload(w.rows() * groups * kQ1GroupBytes);
  pool.for_ranges(w.rows(), row_grain(w), [&](std::int64_t begin, std::int64_t end) {
    for (std::int64_t r = begin; r < end; ++r) {
      encode_row(w.row(r), groups, carry, bytes_at(payload, r * groups * kQ1GroupBytes));
    }
  });
  return payload;
}

RowSourcePtr make_q1_source(cmf::DType dtype, Dims dims, ByteSpan payload) {
  if (dtype == cmf::DType::kQ1g) return std::make_unique<const Q1gSource>(dims, payload);
  return std::make_unique<const Q1Source>(dims, payload);
}

}  // namespace cortiq::codec
