#include "one_bit_codes.hpp"

#include <algorithm>
#include <array>
#include <cmath>
#include <limits>
#include <numeric>

#include "cortiq/support/bytes.hpp"
#include "cortiq/support/half.hpp"
#include "kernels.hpp"

namespace cortiq::gptq {

namespace {

constexpr std::int64_t kQ1sGroupBytes = 6;  ///< half scale, 32 signs
constexpr std::int64_t kQ1tGroupBytes = 9;  ///< half scale, 7 bytes of 5 base-3 digits
constexpr std::int64_t kQ1sEntryBytes = 6;  ///< u32 flat index, half
constexpr std::int64_t kQ1tEntryBytes = 4;  ///< u16 column, half
constexpr std::int64_t kMostQ1tCols = 65536;
constexpr std::array<unsigned, 5> kPowersOf3 = {1, 3, 9, 27, 81};
constexpr std::uint16_t kHalfInfinity = 0x7C00;

std::size_t at(std::int64_t i) { return static_cast<std::size_t>(i); }

/// round(rows*cols*keep) in f32, half away from zero, as the existing tool counts.
std::int64_t wanted_entries(std::int64_t rows, std::int64_t cols, double keep) {
  const std::int64_t total = rows * cols;
  const float wanted = std::round(static_cast<float>(total) * static_cast<float>(keep));
  const std::int64_t count = std::min(static_cast<std::int64_t>(wanted), total);
  return count >= total ? 0 : count;
}

/// Marks the `count` highest scores, of equal ones the first.
std::vector<std::uint8_t> highest(const std::vector<float>& scores, std::int64_t count) {
  std::vector<std::uint8_t> chosen(scores.size(), 0);
  if (count <= 0) return chosen;
  std::vector<float> sorted = scores;
  const auto rank = sorted.begin() + static_cast<std::ptrdiff_t>(count - 1);
  std::nth_element(sorted.begin(), rank, sorted.end(), std::greater<>());
  const float least = *rank;
  std::int64_t left = count - std::count_if(scores.begin(), scores.end(),
                                            [least](float s) { return s > least; });
  for (std::size_t i = 0; i < scores.size(); ++i) {
    const bool tie = scores[i] == least && left > 0;
    left -= tie ? 1 : 0;
    chosen[i] = scores[i] > least || tie ? 1 : 0;
  }
  return chosen;
}

std::vector<float> column_scores(ConstMatrixView<float> w, std::span<const float> rms) {
  std::vector<float> scores(at(w.cols()), 0.0F);
  for (std::int64_t r = 0; r < w.rows(); ++r) {
    for (std::size_t c = 0; c < scores.size(); ++c)
      scores[c] = std::max(scores[c], std::fabs(w.row(r)[c]));
  }
  for (std::size_t c = 0; c < scores.size(); ++c) scores[c] *= rms[c];
  return scores;
}

std::vector<float> entry_scores(ConstMatrixView<float> w, std::span<const float> rms) {
  std::vector<float> scores;
  scores.reserve(at(w.rows() * w.cols()));
  for (std::int64_t r = 0; r < w.rows(); ++r) {
    for (std::int64_t c = 0; c < w.cols(); ++c)
      scores.push_back(std::fabs(w(r, c)) * rms[at(c)]);
  }
  return scores;
}

void pack_group(const std::int8_t* codes, Target target, std::uint8_t* out) {
  for (std::int64_t i = 0; i < kGroupCols; ++i) {
    if (target == Target::kQ1s) {
      const unsigned sign = codes[i] >= 0 ? 1U << (i % 8) : 0U;
      out[i / 8] = static_cast<std::uint8_t>(out[i / 8] | sign);
    } else {
      const unsigned digit = codes[i] == 0 ? 0U : codes[i] > 0 ? 1U : 2U;
      out[i / 5] = static_cast<std::uint8_t>(out[i / 5] + digit * kPowersOf3[at(i % 5)]);
    }
  }
}

std::uint8_t* put_overlay(const OneBitCodes& codes, Target target, std::uint8_t* out) {
  if (target == Target::kQ1s) {
    store_le(out, static_cast<std::uint32_t>(codes.mask.cols.size()));
    out += 4;
  } else {
    for (const std::size_t begin : codes.mask.row_begin) {
      store_le(out, static_cast<std::uint32_t>(begin));
      out += 4;
    }
  }
  std::size_t entry = 0;
  for (std::int64_t r = 0; r < codes.rows; ++r) {
    for (const std::uint32_t c : codes.mask.row(r)) {
      if (target == Target::kQ1s) {
        store_le(out, static_cast<std::uint32_t>(r * codes.cols) + c);
        out += 4;
      } else {
        store_le(out, static_cast<std::uint16_t>(c));
        out += 2;
      }
      store_le(out, codes.overlay[entry++]);
      out += 2;
    }
  }
  return out;
}

}  // namespace

std::int64_t overlay_entries(std::int64_t rows, std::int64_t cols, const OneBitOptions& options) {
  const std::int64_t count = wanted_entries(rows, cols, options.keep);
  return options.column_mask && rows > 0 ? count / rows * rows : count;
}

std::uint64_t one_bit_bytes(Target target, std::int64_t rows, std::int64_t cols,
                            const OneBitOptions& options) {
  const std::int64_t groups = rows * (cols / kGroupCols);
  const std::int64_t entries = overlay_entries(rows, cols, options);
  return static_cast<std::uint64_t>(
      target == Target::kQ1s
          ? groups * kQ1sGroupBytes + 4 + entries * kQ1sEntryBytes
          : groups * kQ1tGroupBytes + 4 * (rows + 1) + entries * kQ1tEntryBytes);
}

void check_one_bit_shape(Target target, std::int64_t rows, std::int64_t cols) {
  if (target == Target::kQ1t && cols > kMostQ1tCols) {
    fail(ErrorKind::kUnsupported, "q1t: {} columns, at most {} are possible; use another codec",
         cols, kMostQ1tCols);
  }
  constexpr std::int64_t kMostWeights = std::numeric_limits<std::uint32_t>::max();
  if (target == Target::kQ1s && cols > 0 && rows > kMostWeights / cols) {
    fail(ErrorKind::kUnsupported,
         "q1s: a matrix of {} x {} has more weights than its 32-bit indices reach; use another "
         "codec",
         rows, cols);
  }
}

OverlayMask choose_overlay(ConstMatrixView<float> w, std::span<const float> rms,
                           const OneBitOptions& options) {
  const std::int64_t wanted = wanted_entries(w.rows(), w.cols(), options.keep);
  OverlayMask mask;
  mask.row_begin.assign(at(w.rows() + 1), 0);
  if (wanted == 0 || w.rows() == 0) return mask;
  const std::vector<std::uint8_t> chosen =
      options.column_mask ? highest(column_scores(w, rms), wanted / w.rows())
                          : highest(entry_scores(w, rms), wanted);
  for (std::int64_t r = 0; r < w.rows(); ++r) {
    const std::uint8_t* row = chosen.data() + (options.column_mask ? 0 : r * w.cols());
    for (std::int64_t c = 0; c < w.cols(); ++c) {
      if (row[c] != 0) mask.cols.push_back(static_cast<std::uint32_t>(c));
    }
    mask.row_begin[at(r + 1)] = mask.cols.size();
  }
  return mask;
}

OneBitCodes::OneBitCodes(std::int64_t row_count, std::int64_t col_count, OverlayMask places)
    : rows(row_count),
      cols(col_count),
      mask(std::move(places)),
      scales(at(row_count * (col_count / kGroupCols)), 0),
      codes(at(row_count * col_count), 0),
      overlay(mask.cols.size(), 0) {}

void OneBitCodes::dequantize(std::int64_t row, std::span<double> out) const {
  const std::int8_t* from = codes.data() + row * cols;
  const std::uint16_t* scale = scales.data() + row * (cols / kGroupCols);
  for (std::int64_t g = 0; g < cols / kGroupCols; ++g) {
    const double s = static_cast<double>(f16_to_f32(scale[g]));
    for (std::int64_t c = g * kGroupCols; c < (g + 1) * kGroupCols; ++c) out[at(c)] = from[c] * s;
  }
  std::size_t entry = mask.row_begin[at(row)];
  for (const std::uint32_t c : mask.row(row))
    out[c] = static_cast<double>(f16_to_f32(overlay[entry++]));
}

void OneBitCodes::check_finite(Target target) const {
  const auto bad = [](std::uint16_t half) { return (half & kHalfInfinity) == kHalfInfinity; };
  const auto scale = std::find_if(scales.begin(), scales.end(), bad);
  const auto entry = std::find_if(overlay.begin(), overlay.end(), bad);
  if (scale == scales.end() && entry == overlay.end()) return;
  std::int64_t row = 0;
  if (scale != scales.end()) {
    row = (scale - scales.begin()) / (cols / kGroupCols);
  } else {
    const auto place = static_cast<std::size_t>(entry - overlay.begin());
    row = std::upper_bound(mask.row_begin.begin(), mask.row_begin.end(), place) -
          mask.row_begin.begin() - 1;
  }
  fail(ErrorKind::kNumeric,
       "row {}: weights are too large for the halves of {}; use another codec for this tensor", row,
       target == Target::kQ1s ? "q1s" : "q1t");
}

std::vector<std::byte> pack_one_bit(const OneBitCodes& codes, Target target) {
  const std::int64_t groups = codes.rows * (codes.cols / kGroupCols);
  const std::int64_t group_bytes = target == Target::kQ1s ? kQ1sGroupBytes : kQ1tGroupBytes;
  const auto entries = static_cast<std::int64_t>(codes.mask.cols.size());
  const std::int64_t tail = target == Target::kQ1s
                                ? 4 + entries * kQ1sEntryBytes
                                : 4 * (codes.rows + 1) + entries * kQ1tEntryBytes;
  std::vector<std::byte> payload(at(groups * group_bytes + tail));
  auto* out = reinterpret_cast<std::uint8_t*>(payload.data());
  for (std::int64_t g = 0; g < groups; ++g, out += group_bytes) {
    store_le(out, codes.scales[at(g)]);
    pack_group(codes.codes.data() + g * kGroupCols, target, out + 2);
  }
  out = put_overlay(codes, target, out);
  CORTIQ_ASSERT(reinterpret_cast<std::byte*>(out) == payload.data() + payload.size());
  return payload;
}

}  // namespace cortiq::gptq
