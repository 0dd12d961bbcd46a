// Decoding of q4tp and q2tp: planes of codes, ladder parameters and 5-bit rungs (cmf.md section 4).
#include <algorithm>
#include <array>

#include "cortiq/codec/ladder.hpp"
#include "kernels.hpp"
#include "row_source.hpp"
#include "scalar_math.hpp"

namespace cortiq::codec {

namespace {

constexpr std::int64_t kBatch = 64;  ///< groups whose scales are looked up at once

class PlanesSource final : public RowSource {
 public:
  PlanesSource(int bits, Dims dims, ByteSpan payload, LadderKind ladder)
      : RowSource(dims),
        bits_(bits),
        deterministic_(ladder == LadderKind::kDeterministic),
        layout_(plane_layout(bits, dims.rows, dims.cols)),
        bytes_(reinterpret_cast<const std::uint8_t*>(payload.data())) {}

  void decode_row(std::int64_t r, float* out, SimdLevel level) const override {
    const std::int64_t groups = dims().cols / kGroup;
    const std::int64_t code_bytes = 4 * bits_;
    const DecodeKernels kernels = decode_kernels(level);
    const Ladder ladder = row_ladder(r);
    const std::uint8_t* codes = bytes_ + r * groups * code_bytes;
    const std::uint8_t* rungs =
        bytes_ + layout_.rungs_offset + static_cast<std::uint64_t>(r * layout_.rung_row_bytes);
    std::array<float, kBatch> scales;
    for (std::int64_t g = 0; g < groups; g += kBatch) {
      const std::int64_t count = std::min(kBatch, groups - g);
      for (std::int64_t i = 0; i < count; ++i) {
        scales[static_cast<std::size_t>(i)] = ladder[get_rung(rungs, g + i)];
      }
      if (bits_ == 4) {
        kernels.q4(codes + g * code_bytes, code_bytes, scales.data(), out + g * kGroup, count);
      } else {
        kernels.q2(codes + g * code_bytes, scales.data(), out + g * kGroup, count);
      }
    }
  }

 private:
  [[nodiscard]] Ladder row_ladder(std::int64_t r) const noexcept {
    const std::uint8_t* stored = bytes_ + layout_.params_offset + static_cast<std::uint64_t>(4 * r);
    const LadderParams params{load_le<std::uint16_t>(stored), load_le<std::uint16_t>(stored + 2)};
    if (bits_ == 4) return deterministic_ ? q4tp_ladder(params) : q4tp_ladder_runtime(params);
    return deterministic_ ? q2tp_ladder(params) : q2tp_ladder_runtime(params);
  }

  int bits_;
  bool deterministic_;
  PlaneLayout layout_;
  const std::uint8_t* bytes_;
};

}  // namespace

RowSourcePtr make_planes_source(cmf::DType dtype, Dims dims, ByteSpan payload, LadderKind ladder) {
  return std::make_unique<const PlanesSource>(dtype == cmf::DType::kQ4tp ? 4 : 2, dims, payload,
                                              ladder);
}

}  // namespace cortiq::codec
