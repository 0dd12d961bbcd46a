// q1s: q1 with an overlay of exact halves that replace the largest weights (cmf.md section 4,
// codecs.md section 7).
#include <algorithm>
#include <cmath>
#include <limits>
#include <vector>

#include "bit_groups.hpp"
#include "cortiq/support/half.hpp"
#include "encoders.hpp"
#include "flat_groups.hpp"
#include "row_source.hpp"

namespace cortiq::codec {

namespace {

constexpr float kMostOutliers = 0.25F;
constexpr std::uint64_t kEntryBytes = 6;  ///< u32 flat index, f16 value

class Q1sSource final : public RowSource {
 public:
  Q1sSource(Dims dims, ByteSpan payload)
      : RowSource(dims), bytes_(reinterpret_cast<const std::uint8_t*>(payload.data())) {
    const std::int64_t count = dims.rows * dims.cols;
    if (count % kGroup != 0) {
      fail(ErrorKind::kInput, "q1s: {} weights are no multiple of {}; choose another codec for it with --tensor-quant", count, kGroup);
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

/// Least magnitude of an outlier; infinity if there is none. Of N weights the round(N*keep)
/// largest, ties included.
float outlier_threshold(Weights w, float keep) {
  const auto count = static_cast<std::size_t>(w.rows() * w.cols());
  const float wanted =
      std::round(static_cast<float>(count) * std::clamp(keep, 0.0F, kMostOutliers));
  const std::size_t outliers = std::min(static_cast<std::size_t>(wanted), count);
  if (outliers == 0) return std::numeric_limits<float>::infinity();
  std::vector<float> magnitudes;
  magnitudes.reserve(count);
  for (std::int64_t r = 0; r < w.rows(); ++r) {
    for (std::int64_t c = 0; c < w.cols(); ++c) magnitudes.push_back(std::fabs(w(r, c)));
  }
  const auto rank = magnitudes.begin() + static_cast<std::ptrdiff_t>(count - outliers);
  std::nth_element(magnitudes.begin(), rank, magnitudes.end());
  return *rank;
}

std::uint16_t base_scale(const float* group, float threshold) noexcept {
  float sum = 0.0F;
  int count = 0;
  for (std::int64_t i = 0; i < kGroup; ++i) {
    const float magnitude = std::fabs(group[i]);
    if (magnitude >= threshold) continue;
    sum = sum + magnitude;
    ++count;
  }
  return f16_scale_bits(count > 0 ? sum / static_cast<float>(count) : 0.0F);
}

/// Signs with carried error; outliers keep their own sign and leave the carry alone. Columns of
/// outliers go to `columns`.
void encode_row(const float* row, std::int64_t groups, float threshold, std::uint8_t* out,
                std::vector<std::int64_t>& columns) {
  float carry = 0.0F;
  for (std::int64_t g = 0; g < groups; ++g, out += kQ1GroupBytes) {
    const float* group = row + g * kGroup;
    const std::uint16_t half = base_scale(group, threshold);
    const float scale = f16_to_f32(half);
    store_le(out, half);
    for (std::int64_t i = 0; i < kGroup; ++i) {
      const bool outlier = std::fabs(group[i]) >= threshold;
      const float value = outlier ? group[i] : group[i] + carry;
      const bool positive = value >= 0.0F;
      if (positive) set_sign(out + 2, i);
      if (outlier) {
        columns.push_back(g * kGroup + i);
      } else {
        carry = value - (positive ? scale : -scale);
      }
    }
  }
}

}  // namespace

Payload encode_q1s(Weights w, float keep, Pool& pool) {
  const std::int64_t groups = w.cols() / kGroup;
  if (w.rows() * w.cols() > static_cast<std::int64_t>(std::numeric_limits<std::uint32_t>::max())) {
    fail(ErrorKind::kUnsupported,
         "q1s: a matrix of {} x {} has more weights than its 32-bit indices reach; use q1",
         w.rows(), w.cols());
  }
  const float threshold = outlier_threshold(w, keep);
  const std::int64_t base = w.rows() * groups * kQ1GroupBytes;
  Payload payload = make_payload(base + 4);
  std::vector<std::vector<std::int64_t>> columns(static_cast<std::size_t>(w.rows()));
  pool.for_ranges(w.rows(), row_grain(w), [&](std::int64_t begin, std::int64_t end) {
    for (std::int64_t r = begin; r < end; ++r) {
      encode_row(w.row(r), groups, threshold, bytes_at(payload, r * groups * kQ1GroupBytes),
                 columns[static_cast<std::size_t>(r)]);
    }
  });
  std::size_t count = 0;
  for (const auto& row : columns) count += row.size();
  payload.resize(payload.size() + count * kEntryBytes);
  store_le(bytes_at(payload, base), static_cast<std::uint32_t>(count));
  std::uint8_t* entry = bytes_at(payload, base + 4);
  for (std::int64_t r = 0; r < w.rows(); ++r) {
    for (const std::int64_t c : columns[static_cast<std::size_t>(r)]) {
      store_le(entry, static_cast<std::uint32_t>(r * w.cols() + c));
      store_le(entry + 4, f32_to_f16(w(r, c)));
      entry += kEntryBytes;
    }
  }
  return payload;
}

RowSourcePtr make_q1s_source(Dims dims, ByteSpan payload) {
  return std::make_unique<const Q1sSource>(dims, payload);
}

}  // namespace cortiq::codec
