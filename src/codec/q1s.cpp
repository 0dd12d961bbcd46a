// q1s: q1 with an overlay of exact halves that replace the largest weights (cmf.md section 4).
#include "bit_groups.hpp"
#include "cortiq/support/half.hpp"
#include "flat_groups.hpp"
#include "row_source.hpp"

namespace cortiq::codec {

namespace {

constexpr std::uint64_t kEntryBytes = 6;  ///< u32 flat index, f16 value

class Q1sSource final : public RowSource {
 public:
  Q1sSource(Dims dims, ByteSpan payload)
      : RowSource(dims), bytes_(reinterpret_cast<const std::uint8_t*>(payload.data())) {
    const std::int64_t count = dims.rows * dims.cols;
    if (count % kGroup != 0) {
      fail(ErrorKind::kInput, "q1s: {} weights are no multiple of {}", count, kGroup);
    }
    const auto base = static_cast<std::uint64_t>(count / kGroup * kQ1GroupBytes);
    if (payload.size() < base + 4) {
      fail(ErrorKind::kInput,
           "q1s: payload of {} bytes ends before the outlier count at {}; the file is damaged",
           payload.size(), base);
    }
    entries_ = bytes_ + base + 4;
    entry_count_ = load_le<std::uint32_t>(bytes_ + base);
    if (payload.size() - base - 4 != entry_count_ * kEntryBytes) {
      fail(ErrorKind::kInput, "q1s: {} outliers announced, {} bytes follow; the file is damaged",
           entry_count_, payload.size() - base - 4);
    }
    check_indices(static_cast<std::uint64_t>(count));
  }

  void decode_row(std::int64_t r, float* out, SimdLevel) const override {
    const std::int64_t cols = dims().cols;
    const std::int64_t first = r * cols;
    decode_flat(first, cols, out, [&](std::int64_t g, float* target) {
      const std::uint8_t* group = bytes_ + g * kQ1GroupBytes;
      decode_signs(group + 2, f16_to_f32(load_le<std::uint16_t>(group)), target);
    });
    const auto begin = static_cast<std::uint64_t>(first);
    const auto end = static_cast<std::uint64_t>(first + cols);
    for (std::uint64_t e = lower_bound(begin); e < entry_count_ && index(e) < end; ++e) {
      out[index(e) - begin] = f16_to_f32(load_le<std::uint16_t>(entries_ + e * kEntryBytes + 4));
    }
  }

 private:
  [[nodiscard]] std::uint64_t index(std::uint64_t entry) const noexcept {
    return load_le<std::uint32_t>(entries_ + entry * kEntryBytes);
  }

  void check_indices(std::uint64_t count) const {
    for (std::uint64_t e = 0; e < entry_count_; ++e) {
      if (index(e) >= count) {
        fail(ErrorKind::kInput,
             "q1s: outlier {} has index {}, but there are {} weights; the file is damaged", e,
             index(e), count);
      }
      if (e > 0 && index(e) <= index(e - 1)) {
        fail(ErrorKind::kInput,
             "q1s: outlier indices do not ascend at entry {}; the file is damaged", e);
      }
    }
  }

  [[nodiscard]] std::uint64_t lower_bound(std::uint64_t value) const noexcept {
    std::uint64_t low = 0;
    std::uint64_t high = entry_count_;
    while (low < high) {
      const std::uint64_t middle = (low + high) / 2;
      if (index(middle) < value) {
        low = middle + 1;
      } else {
        high = middle;
      }
    }
    return low;
  }

  const std::uint8_t* bytes_;
  const std::uint8_t* entries_ = nullptr;
  std::uint64_t entry_count_ = 0;
};

}  // namespace

RowSourcePtr make_q1s_source(Dims dims, ByteSpan payload) {
  return std::make_unique<const Q1sSource>(dims, payload);
}

}  // namespace cortiq::codec
