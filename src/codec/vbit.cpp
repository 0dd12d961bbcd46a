// vbit and vbit_ro: per row a width of 3 to 8 bits, a half scale per group of 32, codes packed from
// the most significant bit (cmf.md section 4). vbit_ro stores the row offsets, vbit leaves them to
// be summed.
#include <vector>

#include "cortiq/support/half.hpp"
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
      fail(ErrorKind::kInput, "vbit: {} columns are no multiple of {}", dims.cols, kGroup);
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

}  // namespace

RowSourcePtr make_vbit_source(cmf::DType dtype, Dims dims, ByteSpan payload) {
  return std::make_unique<const VbitSource>(dtype == cmf::DType::kVbitRo, dims, payload);
}

}  // namespace cortiq::codec
