// vbit and vbit_ro: per row a width of 3 to 8 bits, a half scale per group of 32, codes packed from
// the most significant bit (cmf.md section 4, codecs.md section 8). vbit_ro stores the row offsets,
// vbit leaves them to be summed.
#include <algorithm>
#include <array>
#include <cmath>
#include <limits>
#include <vector>

#include "cortiq/support/half.hpp"
#include "encoders.hpp"
#include "row_source.hpp"
#include "scalar_math.hpp"

namespace cortiq::codec {

namespace {

[[nodiscard]] bool is_width(unsigned bits) noexcept {
  return bits == 3 || bits == 4 || bits == 5 || bits == 6 || bits == 8;
}

class VbitSource final : public RowSource {
 public:
  VbitSource(bool has_offsets, Dims dims, ByteSpan payload)
      : RowSource(dims), bytes_(reinterpret_cast<const std::uint8_t*>(payload.data())) {
    if (dims.cols % kGroup != 0) {
      fail(ErrorKind::kInput, "vbit: {} columns are no multiple of {}; choose another codec for it with --tensor-quant", dims.cols, kGroup);
    }
    const auto rows = static_cast<std::uint64_t>(dims.rows);
    const auto groups = static_cast<std::uint64_t>(dims.rows * (dims.cols / kGroup));
    const std::uint64_t table = rows + 2 * groups;
    const std::uint64_t head = table + (has_offsets ? 4 * (rows + 1) : 0);
    if (payload.size() < rows || payload.size() < head) {
      fail(ErrorKind::kInput,
           "vbit: payload of {} bytes is shorter than its tables of {}; the file is damaged",
           payload.size(), head);
    }
    scales_ = bytes_ + rows;
    packed_ = bytes_ + head;
    make_offsets(payload.size() - head);
    if (has_offsets) check_table(bytes_ + table);
  }

  void decode_row(std::int64_t r, float* out, SimdLevel) const override {
    const std::int64_t cols = dims().cols;
    const unsigned width = bytes_[r];
    const unsigned mask = (1U << width) - 1U;
    const float middle = static_cast<float>((1 << (width - 1)) - 1);
    const std::uint8_t* in = packed_ + offsets_[static_cast<std::size_t>(r)];
    const std::uint8_t* scales = scales_ + 2 * r * (cols / kGroup);
    unsigned window = 0;
    unsigned held = 0;
    float scale = 0.0F;
    for (std::int64_t i = 0; i < cols; ++i) {
      if (i % kGroup == 0) scale = f16_to_f32(load_le<std::uint16_t>(scales + 2 * (i / kGroup)));
      if (held < width) {
        window = (window << 8) | *in++;
        held += 8;
      }
      held -= width;
      out[i] = (static_cast<float>((window >> held) & mask) - middle) * scale;
    }
  }

 private:
  void make_offsets(std::uint64_t packed_bytes) {
    const auto rows = static_cast<std::size_t>(dims().rows);
    offsets_.resize(rows + 1);
    for (std::size_t r = 0; r < rows; ++r) {
      if (!is_width(bytes_[r])) {
        fail(ErrorKind::kInput,
             "vbit: row {} has {} bits; 3, 4, 5, 6 and 8 are allowed; the file is damaged", r,
             bytes_[r]);
      }
      offsets_[r + 1] = offsets_[r] + (static_cast<std::uint64_t>(dims().cols) * bytes_[r] + 7) / 8;
    }
    if (offsets_[rows] != packed_bytes) {
      fail(ErrorKind::kInput,
           "vbit: the rows need {} bytes of codes, the payload has {}; the file is damaged",
           offsets_[rows], packed_bytes);
    }
  }

  void check_table(const std::uint8_t* table) const {
    for (std::size_t r = 0; r < offsets_.size(); ++r) {
      const std::uint64_t stored = load_le<std::uint32_t>(table + 4 * r);
      if (stored != offsets_[r]) {
        fail(ErrorKind::kInput, "vbit_ro: offset {} is {}, computed {}; the file is damaged", r,
             stored, offsets_[r]);
      }
    }
  }

  const std::uint8_t* bytes_;
  const std::uint8_t* scales_ = nullptr;
  const std::uint8_t* packed_ = nullptr;
  std::vector<std::uint64_t> offsets_;
};

/// The width nearest to x, the smaller of two at the same distance.
std::uint8_t nearest_width(float x) noexcept {
  std::uint8_t best = 3;
  for (const std::uint8_t width :
       {std::uint8_t{4}, std::uint8_t{5}, std::uint8_t{6}, std::uint8_t{8}}) {
    if (std::fabs(x - static_cast<float>(width)) < std::fabs(x - static_cast<float>(best)))
      best = width;
  }
  return best;
}

/// Rows of larger weights get more bits, with the given mean.
std::vector<std::uint8_t> row_widths(Weights w, float mean_bits) {
  std::vector<float> logs;
  float sum = 0.0F;
  for (std::int64_t r = 0; r < w.rows(); ++r) {
    logs.push_back(std::log2(std::max(abs_max(w.row(r), w.cols()), 1e-12F)));
    sum = sum + logs.back();
  }
  const float mean = sum / static_cast<float>(w.rows());
  const float target = std::clamp(mean_bits, 3.0F, 8.0F);
  std::vector<std::uint8_t> widths;
  for (const float lg : logs) widths.push_back(nearest_width(target + (lg - mean)));
  return widths;
}

void encode_row(const float* row, std::int64_t groups, unsigned width, std::uint8_t* scales,
                std::uint8_t* out) noexcept {
  const float middle = static_cast<float>((1 << (width - 1)) - 1);
  const float last = static_cast<float>((1 << width) - 1);
  unsigned window = 0;
  unsigned held = 0;
  for (std::int64_t g = 0; g < groups; ++g) {
    const float* group = row + g * kGroup;
    const std::uint16_t half = f16_scale_bits(abs_max(group, kGroup) / std::max(middle, 1.0F));
    const float scale = f16_to_f32(half);
    store_le(scales + 2 * g, half);
    for (std::int64_t i = 0; i < kGroup; ++i) {
      // Rounded before the offset is added; clamped first to the range that can matter.
      const float level = round_even(std::clamp(group[i] / scale, -512.0F, 512.0F));
      const int code = static_cast<int>(std::clamp(level + middle, 0.0F, last));
      window = (window << width) | static_cast<unsigned>(code);
      held += width;
      while (held >= 8) {
        held -= 8;
        *out++ = static_cast<std::uint8_t>(window >> held);
      }
    }
  }
}

}  // namespace

Payload encode_vbit(Weights w, float mean_bits, bool offsets, Pool& pool) {
  const std::int64_t rows = w.rows();
  const std::int64_t groups = w.cols() / kGroup;
  const std::vector<std::uint8_t> widths = row_widths(w, mean_bits);
  std::vector<std::int64_t> starts = {0};
  // 32 codes of any width fill whole bytes, so rows need no padding.
  for (const std::uint8_t width : widths) starts.push_back(starts.back() + w.cols() / 8 * width);
  if (offsets &&
      starts.back() > static_cast<std::int64_t>(std::numeric_limits<std::uint32_t>::max())) {
    fail(ErrorKind::kUnsupported,
         "vbit: {} bytes of codes are more than its 32-bit offsets reach; use q4tp", starts.back());
  }
  const std::int64_t table = rows + 2 * rows * groups;
  const std::int64_t packed = table + (offsets ? 4 * (rows + 1) : 0);
  Payload payload = make_payload(packed + starts.back());
  std::ranges::copy(widths, bytes_at(payload, 0));
  for (std::int64_t r = 0; offsets && r <= rows; ++r) {
    store_le(bytes_at(payload, table + 4 * r),
             static_cast<std::uint32_t>(starts[static_cast<std::size_t>(r)]));
  }
  pool.for_ranges(rows, row_grain(w), [&](std::int64_t begin, std::int64_t end) {
    for (std::int64_t r = begin; r < end; ++r) {
      const auto row = static_cast<std::size_t>(r);
      encode_row(w.row(r), groups, widths[row], bytes_at(payload, rows + 2 * r * groups),
                 bytes_at(payload, packed + starts[row]));
    }
  });
  return payload;
}

RowSourcePtr make_vbit_source(cmf::DType dtype, Dims dims, ByteSpan payload) {
  return std::make_unique<const VbitSource>(dtype == cmf::DType::kVbitRo, dims, payload);
}

}  // namespace cortiq::codec
