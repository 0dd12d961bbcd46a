// q8_row and q8_2f: one signed byte per weight, a scale per row, for q8_2f also one per column
// (cmf.md section 4,
// codecs.md section 5).
#include <algorithm>
#include <cmath>
#include <vector>

#include "cortiq/support/half.hpp"
#include "encoders.hpp"
#include "kernels.hpp"
#include "row_source.hpp"
#include "scalar_math.hpp"

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

/// Rows whose squares are summed before they join the total of a column: part of the bytes of
/// q8_2f.
constexpr std::int64_t kFieldRows = 256;
constexpr float kLeastField = 1e-12F;

void add_squares(const float* row, std::int64_t cols, double* sums) noexcept {
  for (std::int64_t i = 0; i < cols; ++i) {
    const double value = static_cast<double>(row[i]);
    sums[i] = sums[i] + value * value;
  }
}

/// Half bits of the root mean square of each column.
std::vector<std::uint16_t> column_field(Weights w, Pool& pool) {
  const std::int64_t cols = w.cols();
  const std::int64_t blocks = (w.rows() + kFieldRows - 1) / kFieldRows;
  std::vector<double> partial(static_cast<std::size_t>(blocks * cols));
  pool.for_each(blocks, [&](std::int64_t b) {
    const std::int64_t end = std::min(w.rows(), (b + 1) * kFieldRows);
    for (std::int64_t r = b * kFieldRows; r < end; ++r)
      add_squares(w.row(r), cols, partial.data() + b * cols);
  });
  std::vector<std::uint16_t> field(static_cast<std::size_t>(cols));
  for (std::int64_t i = 0; i < cols; ++i) {
    double total = 0.0;
    for (std::int64_t b = 0; b < blocks; ++b)
      total = total + partial[static_cast<std::size_t>(b * cols + i)];
    const double rms = std::fmax(std::sqrt(total / static_cast<double>(w.rows())), 1e-12);
    field[static_cast<std::size_t>(i)] = f16_scale_bits(static_cast<float>(rms));
  }
  return field;
}

}  // namespace

Payload encode_q8_row(Weights w, Pool& pool) {
  const std::int64_t cols = w.cols();
  Payload payload = make_payload(w.rows() * (cols + 2));
  const PackKernels pack = pack_kernels(pool.simd());
  pool.for_ranges(w.rows(), row_grain(w), [&](std::int64_t begin, std::int64_t end) {
    for (std::int64_t r = begin; r < end; ++r) {
      const std::uint16_t half = f16_scale_bits(pack.abs_max(w.row(r), cols) / 127.0F);
      auto* out = reinterpret_cast<std::int8_t*>(bytes_at(payload, r * cols));
      pack.q8_row(w.row(r), f16_to_f32(half), out, cols);
      store_le(bytes_at(payload, w.rows() * cols + 2 * r), half);
    }
  });
  return payload;
}

Payload encode_q8_2f(Weights w, Pool& pool) {
  const std::int64_t cols = w.cols();
  const std::int64_t row_scales = w.rows() * cols;
  const std::int64_t column_scales = row_scales + 2 * w.rows();
  Payload payload = make_payload(column_scales + 2 * cols);
  const std::vector<std::uint16_t> field = column_field(w, pool);
  std::vector<float> column(field.size());
  for (std::size_t i = 0; i < field.size(); ++i) {
    column[i] = f16_to_f32(field[i]);
    store_le(bytes_at(payload, column_scales + 2 * static_cast<std::int64_t>(i)), field[i]);
  }
  const PackKernels pack = pack_kernels(pool.simd());
  pool.for_ranges(w.rows(), row_grain(w), [&](std::int64_t begin, std::int64_t end) {
    for (std::int64_t r = begin; r < end; ++r) {
      const float largest = pack.abs_max_2f(w.row(r), column.data(), cols);
      const std::uint16_t half = f16_scale_bits(std::fmax(largest, kLeastField) / 127.0F);
      auto* out = reinterpret_cast<std::int8_t*>(bytes_at(payload, r * cols));
      pack.q8_2f(w.row(r), column.data(), f16_to_f32(half), out, cols);
      store_le(bytes_at(payload, row_scales + 2 * r), half);
    }
  });
  return payload;
}

RowSourcePtr make_q8_source(cmf::DType dtype, Dims dims, ByteSpan payload) {
  return std::make_unique<const Q8Source>(dtype, dims, payload);
}

}  // namespace cortiq::codec
