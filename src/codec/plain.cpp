// f32, f16 and bf16: values without groups or scales.
#include <cstring>

#include "encoders.hpp"
#include "kernels.hpp"
#include "row_source.hpp"

namespace cortiq::codec {

namespace {

class PlainSource final : public RowSource {
 public:
  PlainSource(cmf::DType dtype, Dims dims, ByteSpan payload)
      : RowSource(dims), dtype_(dtype), payload_(payload) {}

  void decode_row(std::int64_t r, float* out, SimdLevel level) const override {
    const std::int64_t cols = dims().cols;
    if (cols == 0) return;
    const std::int64_t size = dtype_ == cmf::DType::kF32 ? 4 : 2;
    const std::byte* in = payload_.data() + r * cols * size;
    if (dtype_ == cmf::DType::kF32) {
      std::memcpy(out, in, static_cast<std::size_t>(cols * size));
    } else if (dtype_ == cmf::DType::kF16) {
      decode_kernels(level).f16(in, out, cols);
    } else {
      decode_kernels(level).bf16(in, out, cols);
    }
  }

 private:
  cmf::DType dtype_;
  ByteSpan payload_;
};

}  // namespace

Payload encode_plain(Codec codec, Weights w, Pool& pool) {
  const std::int64_t size = codec == Codec::kF32 ? 4 : 2;
  Payload payload = make_payload(w.rows() * w.cols() * size);
  const PackKernels pack = pack_kernels(pool.simd());
  pool.for_ranges(w.rows(), row_grain(w), [&](std::int64_t begin, std::int64_t end) {
    for (std::int64_t r = begin; r < end && w.cols() > 0; ++r) {
      std::uint8_t* out = bytes_at(payload, r * w.cols() * size);
      if (codec == Codec::kF32) {
        std::memcpy(out, w.row(r), static_cast<std::size_t>(w.cols() * size));
      } else if (codec == Codec::kF16) {
        pack.f16(w.row(r), out, w.cols());
      } else {
        pack.bf16(w.row(r), out, w.cols());
      }
    }
  });
  return payload;
}

RowSourcePtr make_plain_source(cmf::DType dtype, Dims dims, ByteSpan payload) {
  return std::make_unique<const PlainSource>(dtype, dims, payload);
}

}  // namespace cortiq::codec
