// q8_row and q8_2f: one signed byte per weight, a scale per row, for q8_2f also one per column
// (cmf.md section 4).
#include <vector>

#include "cortiq/support/half.hpp"
#include "kernels.hpp"
#include "row_source.hpp"

namespace cortiq::codec {

namespace {

class Q8Source final : public RowSource {
 public:
  Q8Source(cmf::DType dtype, Dims dims, ByteSpan payload)
      : RowSource(dims), codes_(payload.data()) {
    scales_ = codes_ + dims.rows * dims.cols;
    if (dtype != cmf::DType::kQ82f) return;
    columns_.resize(static_cast<std::size_t>(dims.cols));
    decode_kernels(SimdLevel::kPortable).f16(scales_ + 2 * dims.rows, columns_.data(), dims.cols);
  }

  void decode_row(std::int64_t r, float* out, SimdLevel level) const override {
    const std::int64_t cols = dims().cols;
    const auto* q = reinterpret_cast<const std::int8_t*>(codes_ + r * cols);
    const float scale = f16_to_f32(load_le<std::uint16_t>(scales_ + 2 * r));
    if (columns_.empty()) {
      decode_kernels(level).q8_row(q, scale, out, cols);
    } else {
      decode_kernels(level).q8_2f(q, scale, columns_.data(), out, cols);
    }
  }

 private:
  const std::byte* codes_;
  const std::byte* scales_ = nullptr;
  std::vector<float> columns_;  ///< empty for q8_row
};

}  // namespace

RowSourcePtr make_q8_source(cmf::DType dtype, Dims dims, ByteSpan payload) {
  return std::make_unique<const Q8Source>(dtype, dims, payload);
}

}  // namespace cortiq::codec
