// q1t: ternary groups, five base-3 digits per byte, with a row-wise overlay of exact halves (cmf.md
// section 4).
#include <algorithm>
#include <array>
#include <cmath>
#include <vector>

#include "cortiq/codec/variants.hpp"
#include "cortiq/support/half.hpp"
#include "encoders.hpp"
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
      fail(ErrorKind::kInput, "q1t: {} columns are no multiple of {}; choose another codec for it with --tensor-quant", dims.cols, kGroup);
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

struct Ternary {
  float scale = 0.0F;
  float threshold = 0.0F;  ///< weights of at least this magnitude are not zero
};

float half_rounded(float x) noexcept { return std::fmax(f16_to_f32(f32_to_f16(x)), kTiny); }

/// Two candidates per group, the one of less squared error wins (codecs.md section 7, unit
/// activation weights).
Ternary choose_group(const float* group) noexcept {
  const float mean = abs_sum(group, kGroup) / 32.0F;
  const Ternary legacy{half_rounded(mean), 0.5F * half_rounded(mean)};
  const float threshold = 0.7F * mean;
  double num = 0.0;
  double den = 0.0;
  for (std::int64_t i = 0; i < kGroup; ++i) {
    const float magnitude = std::fabs(group[i]);
    if (!(magnitude >= threshold)) continue;
    num = num + static_cast<double>(magnitude);
    den = den + 1.0;
  }
  const Ternary adaptive{den > 0.0 ? half_rounded(static_cast<float>(num / den)) : legacy.scale,
                         threshold};
  const auto error = [group](Ternary choice) {
    double sum = 0.0;
    for (std::int64_t i = 0; i < kGroup; ++i) {
      const bool live = std::fabs(group[i]) >= choice.threshold;
      const float q = live ? std::copysign(choice.scale, group[i]) : 0.0F;
      const double e = static_cast<double>(group[i]) - static_cast<double>(q);
      sum = sum + e * e;
    }
    return sum;
  };
  return error(adaptive) < error(legacy) ? adaptive : legacy;
}

constexpr std::array<unsigned, 5> kPowersOf3 = {1, 3, 9, 27, 81};

void put_digit(std::uint8_t* digits, std::int64_t i, unsigned code) noexcept {
  digits[i / 5] =
      static_cast<std::uint8_t>(digits[i / 5] + code * kPowersOf3[static_cast<std::size_t>(i % 5)]);
}

/// The factor of all scales of a row that makes its rounded form fit it best; 1 if the row is zero.
class RowFit {
 public:
  void add(double q, double w) noexcept {
    num_ = num_ + q * w;
    den_ = den_ + q * q;
  }
  [[nodiscard]] float factor() const noexcept {
    return den_ > 1e-20 ? static_cast<float>(std::clamp(num_ / den_, 0.5, 2.0)) : 1.0F;
  }

 private:
  double num_ = 0.0;
  double den_ = 0.0;
};

void encode_row(const float* row, std::int64_t groups, bool rescale, std::uint8_t* out) {
  std::vector<float> scales(static_cast<std::size_t>(groups));
  RowFit fit;
  for (std::int64_t g = 0; g < groups; ++g) {
    const float* group = row + g * kGroup;
    const Ternary choice = choose_group(group);
    scales[static_cast<std::size_t>(g)] = choice.scale;
    for (std::int64_t i = 0; i < kGroup; ++i) {
      if (!(std::fabs(group[i]) >= choice.threshold)) continue;
      const bool positive = group[i] >= 0.0F;
      put_digit(out + g * kGroupBytes + 2, i, positive ? 1 : 2);
      const double scale = static_cast<double>(choice.scale);
      fit.add(positive ? scale : -scale, static_cast<double>(group[i]));
    }
  }
  const float factor = rescale ? fit.factor() : 1.0F;
  for (std::int64_t g = 0; g < groups; ++g) {
    store_le(out + g * kGroupBytes, f32_to_f16(scales[static_cast<std::size_t>(g)] * factor));
  }
}

/// False if a weight is neither 0 nor close to plus or minus the largest magnitude of its group.
bool encode_exact_group(const float* group, std::uint8_t* out) noexcept {
  constexpr float kTolerance = 1e-3F;
  const std::uint16_t half = f32_to_f16(abs_max(group, kGroup));
  const float scale = f16_to_f32(half);
  store_le(out, half);
  for (std::int64_t i = 0; i < kGroup; ++i) {
    if (group[i] == 0.0F) continue;
    if (!(std::fabs(std::fabs(group[i]) - scale) <= scale * kTolerance)) return false;
    put_digit(out + 2, i, group[i] > 0.0F ? 1 : 2);
  }
  return true;
}

/// Room for the groups and an empty overlay.
Payload make_q1t_payload(Weights w) {
  constexpr std::int64_t kMostColumns = 65536;  // overlay columns are 16 bits wide
  if (w.cols() > kMostColumns) {
    fail(ErrorKind::kUnsupported, "q1t: {} columns, at most {} are possible; use q1", w.cols(),
         kMostColumns);
  }
  return make_payload(w.rows() * (w.cols() / kGroup) * kGroupBytes + 4 * (w.rows() + 1));
}

}  // namespace

Payload encode_q1t(Weights w, bool row_rescale, Pool& pool) {
  const std::int64_t groups = w.cols() / kGroup;
  Payload payload = make_q1t_payload(w);
  pool.for_ranges(w.rows(), row_grain(w), [&](std::int64_t begin, std::int64_t end) {
    for (std::int64_t r = begin; r < end; ++r) {
      encode_row(w.row(r), groups, row_rescale, bytes_at(payload, r * groups * kGroupBytes));
    }
  });
  return payload;
}

std::vector<std::byte> encode_q1t_exact(ConstMatrixView<float> w, Pool& pool) {
  CORTIQ_ASSERT(w.cols() % kGroup == 0);
  const std::int64_t groups = w.cols() / kGroup;
  Payload payload = make_q1t_payload(w);
  pool.for_ranges(w.rows(), row_grain(w), [&](std::int64_t begin, std::int64_t end) {
    for (std::int64_t g = begin * groups; g < end * groups; ++g) {
      const float* group = w.row(g / groups) + g % groups * kGroup;
      if (encode_exact_group(group, bytes_at(payload, g * kGroupBytes))) continue;
      fail(ErrorKind::kInput, "q1t exact: group {} of row {} is not ternary; use q1t", g % groups,
           g / groups);
    }
  });
  return payload;
}

RowSourcePtr make_q1t_source(Dims dims, ByteSpan payload) {
  return std::make_unique<const Q1tSource>(dims, payload);
}

}  // namespace cortiq::codec
