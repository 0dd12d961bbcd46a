// q4_block and q4_tiled: groups of 32 of the flattened tensor, 16 bytes of nibbles and a half scale
// each (cmf.md section 4, codecs.md section 6).
// q4_block keeps all scales behind all codes, q4_tiled each scale in front
// of its codes.
#include <algorithm>
#include <array>

#include "cortiq/support/half.hpp"
#include "encoders.hpp"
#include "flat_groups.hpp"
#include "kernels.hpp"
#include "row_source.hpp"

namespace cortiq::codec {

namespace {

constexpr std::int64_t kCodeBytes = 16;
constexpr std::int64_t kTileBytes = 18;

/// Where codes and scale of group g lie.
struct Placement {
  std::int64_t codes = 0;
  std::int64_t code_stride = kCodeBytes;
  std::int64_t scales = 0;
  std::int64_t scale_stride = 2;
};

Placement placement(bool tiled, std::int64_t groups) noexcept {
  if (tiled) return {2, kTileBytes, 0, kTileBytes};
  return {0, kCodeBytes, groups * kCodeBytes, 2};
}

class Q4Source final : public RowSource {
 public:
  Q4Source(cmf::DType dtype, Dims dims, ByteSpan payload)
      : RowSource(dims),
        bytes_(reinterpret_cast<const std::uint8_t*>(payload.data())),
        place_(placement(dtype == cmf::DType::kQ4Tiled,
                         (dims.rows * dims.cols + kGroup - 1) / kGroup)) {}

  void decode_row(std::int64_t r, float* out, SimdLevel level) const override {
    const std::int64_t cols = dims().cols;
    const DecodeKernels kernels = decode_kernels(level);
    decode_flat(r * cols, cols, out, [&](std::int64_t g, float* target) {
      const float scale =
          f16_to_f32(load_le<std::uint16_t>(bytes_ + place_.scales + g * place_.scale_stride));
      kernels.q4(bytes_ + place_.codes + g * place_.code_stride, place_.code_stride, &scale, target,
                 1);
    });
  }

 private:
  const std::uint8_t* bytes_;
  Placement place_;
};

/// Elements [first, first + 32) of the flattened matrix; zeros behind its end.
void gather(Weights w, std::int64_t first, float* out) noexcept {
  const std::int64_t count = w.rows() * w.cols();
  for (std::int64_t i = 0; i < kGroup; ++i) {
    const std::int64_t at = first + i;
    out[i] = at < count ? w(at / w.cols(), at % w.cols()) : 0.0F;
  }
}

}  // namespace

Payload encode_q4(Codec codec, Weights w, Pool& pool) {
  const std::int64_t groups = (w.rows() * w.cols() + kGroup - 1) / kGroup;
  Payload payload = make_payload(groups * kTileBytes);
  const Placement place = placement(codec == Codec::kQ4Tiled, groups);
  const PackKernels pack = pack_kernels(pool.simd());
  constexpr std::int64_t kGroupsPerTask = 512;
  const bool aligned = w.cols() % kGroup == 0;
  pool.for_ranges(groups, kGroupsPerTask, [&](std::int64_t begin, std::int64_t end) {
    std::array<float, kGroup> padded;
    for (std::int64_t g = begin; g < end; ++g) {
      const float* group = padded.data();
      if (aligned) {
        group = w.row(g * kGroup / w.cols()) + g * kGroup % w.cols();
      } else {
        gather(w, g * kGroup, padded.data());
      }
      const std::uint16_t half = f16_scale_bits(pack.abs_max(group, kGroup) / 7.0F);
      const float scale = f16_to_f32(half);
      pack.q4_divide(group, &scale, bytes_at(payload, place.codes + g * place.code_stride), 0, 1);
      store_le(bytes_at(payload, place.scales + g * place.scale_stride), half);
    }
  });
  return payload;
}

RowSourcePtr make_q4_source(cmf::DType dtype, Dims dims, ByteSpan payload) {
  return std::make_unique<const Q4Source>(dtype, dims, payload);
}

}  // namespace cortiq::codec
