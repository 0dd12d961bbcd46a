// q1t: ternary groups, five base-3 digits per byte, with a row-wise overlay of exact halves (cmf.md
// section 4).
#include "cortiq/support/half.hpp"
#include "row_source.hpp"
#include "scalar_math.hpp"

namespace cortiq::codec {

namespace {

constexpr std::int64_t kGroupBytes = 9;   ///< half scale, then 7 bytes of digits
constexpr std::uint64_t kEntryBytes = 4;  ///< u16 column, f16 value

void decode_digits(const std::uint8_t* digits, float scale, float* out) noexcept {
  const float values[3] = {0.0F, scale, -scale};
  for (std::int64_t byte = 0; byte * 5 < kGroup; ++byte) {
    unsigned rest = digits[byte];
    for (std::int64_t k = byte * 5; k < std::min(kGroup, byte * 5 + 5); ++k) {
      out[k] = values[rest % 3];
      rest /= 3;
    }
  }
}

class Q1tSource final : public RowSource {
 public:
  Q1tSource(Dims dims, ByteSpan payload)
      : RowSource(dims), bytes_(reinterpret_cast<const std::uint8_t*>(payload.data())) {
    if (dims.cols % kGroup != 0) {
      fail(ErrorKind::kInput, "q1t: {} columns are no multiple of {}", dims.cols, kGroup);
    }
    const auto groups = static_cast<std::uint64_t>(dims.rows * (dims.cols / kGroup));
    const auto rows = static_cast<std::uint64_t>(dims.rows);
    const std::uint64_t base = groups * kGroupBytes;
    // rows may be huge while cols is 0, so no product of rows is formed before this comparison.
    if (payload.size() < base || (payload.size() - base) / 4 < rows + 1) {
      fail(ErrorKind::kInput,
           "q1t: payload of {} bytes ends inside the row table at {}; the file is damaged",
           payload.size(), base);
    }
    row_ptr_ = bytes_ + base;
    entries_ = row_ptr_ + 4 * (rows + 1);
    check_overlay(payload.size() - base - 4 * (rows + 1));
  }

  void decode_row(std::int64_t r, float* out, SimdLevel) const override {
    const std::int64_t groups = dims().cols / kGroup;
    for (std::int64_t g = 0; g < groups; ++g) {
      const std::uint8_t* group = bytes_ + (r * groups + g) * kGroupBytes;
      decode_digits(group + 2, f16_to_f32(load_le<std::uint16_t>(group)), out + g * kGroup);
    }
    for (std::uint64_t e = row_begin(r); e < row_begin(r + 1); ++e) {
      out[column(e)] = f16_to_f32(load_le<std::uint16_t>(entries_ + e * kEntryBytes + 2));
    }
  }

 private:
  [[nodiscard]] std::uint64_t row_begin(std::int64_t r) const noexcept {
    return load_le<std::uint32_t>(row_ptr_ + 4 * r);
  }
  [[nodiscard]] std::int64_t column(std::uint64_t entry) const noexcept {
    return load_le<std::uint16_t>(entries_ + entry * kEntryBytes);
  }

  void check_overlay(std::uint64_t bytes) const {
    if (row_begin(0) != 0)
      fail(ErrorKind::kInput, "q1t: row table begins with {}, not 0; the file is damaged",
           row_begin(0));
    for (std::int64_t r = 0; r < dims().rows; ++r) {
      if (row_begin(r + 1) < row_begin(r)) {
        fail(ErrorKind::kInput, "q1t: row table descends at row {}; the file is damaged", r);
      }
    }
    const std::uint64_t count = row_begin(dims().rows);
    if (count * kEntryBytes != bytes) {
      fail(ErrorKind::kInput,
           "q1t: row table announces {} overlay entries, {} bytes follow; the file is damaged",
           count, bytes);
    }
    for (std::uint64_t e = 0; e < count; ++e) {
      if (column(e) >= dims().cols) {
        fail(ErrorKind::kInput, "q1t: overlay entry {} has column {} of {}; the file is damaged", e,
             column(e), dims().cols);
      }
    }
  }

  const std::uint8_t* bytes_;
  const std::uint8_t* row_ptr_ = nullptr;
  const std::uint8_t* entries_ = nullptr;
};

}  // namespace

RowSourcePtr make_q1t_source(Dims dims, ByteSpan payload) {
  return std::make_unique<const Q1tSource>(dims, payload);
}

}  // namespace cortiq::codec
