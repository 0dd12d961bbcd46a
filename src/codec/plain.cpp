// Decoding of f32, f16 and bf16.
#include <cstring>

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

RowSourcePtr make_plain_source(cmf::DType dtype, Dims dims, ByteSpan payload) {
  return std::make_unique<const PlainSource>(dtype, dims, payload);
}

}  // namespace cortiq::codec
