#include "cortiq/codec/codec.hpp"

#include <algorithm>
#include <array>
#include <cmath>
#include <limits>

#include "cortiq/codec/variants.hpp"
#include "encoders.hpp"
#include "scalar_math.hpp"

namespace cortiq::codec {

namespace {

struct CodecInfo {
  Codec codec;
  cmf::DType dtype;
  bool grouped;  ///< needs cols % 32 == 0
  std::array<std::string_view, 3> names;
};

using cmf::DType;
constexpr std::array<CodecInfo, 15> kCodecs = {{
    {Codec::kF32, DType::kF32, false, {"f32", "", ""}},
    {Codec::kF16, DType::kF16, false, {"f16", "fp16", ""}},
    {Codec::kBf16, DType::kBf16, false, {"bf16", "", ""}},
    {Codec::kQ8Row, DType::kQ8Row, false, {"q8", "q8_row", "q8row"}},
    {Codec::kQ82f, DType::kQ82f, false, {"q8_2f", "q82f", "q8f"}},
    {Codec::kQ4Block, DType::kQ4Block, false, {"q4", "q4_block", "q4block"}},
    {Codec::kQ4Tiled, DType::kQ4Tiled, true, {"q4t", "q4_tiled", ""}},
    {Codec::kQ4tp, DType::kQ4tp, true, {"q4tp", "q4t_pred", ""}},
    {Codec::kQ2tp, DType::kQ2tp, true, {"q2tp", "q2t_pred", ""}},
    {Codec::kQ1, DType::kQ1, true, {"q1", "", ""}},
    {Codec::kQ1p, DType::kQ1, true, {"q1p", "q1_ptq", ""}},
    {Codec::kQ1s, DType::kQ1s, true, {"q1s", "q1_mask", ""}},
    {Codec::kQ1t, DType::kQ1t, true, {"q1t", "q1_ternary", ""}},
    {Codec::kVbit, DType::kVbitRo, true, {"vbit", "v_bit", ""}},
    {Codec::kMxfp4, DType::kMxfp4, true, {"mxfp4", "mx_fp4", ""}},
}};

constexpr bool in_order_of_enum() {
  for (std::size_t i = 0; i < kCodecs.size(); ++i) {
    if (static_cast<std::size_t>(kCodecs[i].codec) != i) return false;
  }
  return true;
}
static_assert(in_order_of_enum());

const CodecInfo& info(Codec codec) noexcept { return kCodecs[static_cast<std::size_t>(codec)]; }

/// f32 and bf16 are forms of storage: no user-facing quantizer name of the format stands for them.
constexpr bool has_user_name(Codec codec) noexcept {
  return codec != Codec::kF32 && codec != Codec::kBf16;
}

char lower(char c) noexcept { return c >= 'A' && c <= 'Z' ? static_cast<char>(c - 'A' + 'a') : c; }

bool equal_ignoring_case(std::string_view a, std::string_view b) noexcept {
  return std::ranges::equal(a, b, [](char x, char y) { return lower(x) == lower(y); });
}

}  // namespace

std::string_view codec_name(Codec codec) noexcept { return info(codec).names[0]; }

std::optional<Codec> try_parse_codec(std::string_view name) noexcept {
  if (name.empty()) return std::nullopt;
  for (const CodecInfo& entry : kCodecs) {
    if (!has_user_name(entry.codec)) continue;
    for (const std::string_view alias : entry.names) {
      if (equal_ignoring_case(alias, name)) return entry.codec;
    }
  }
  return std::nullopt;
}

std::string codec_names() {
  std::string text;
  for (const CodecInfo& entry : kCodecs) {
    if (!has_user_name(entry.codec)) continue;
    if (!text.empty()) text += ", ";
    text += entry.names[0];
  }
  return text;
}

cmf::DType dtype_of(Codec codec) noexcept { return info(codec).dtype; }

Codec with_column_fallback(Codec codec, std::int64_t cols) noexcept {
  return info(codec).grouped && cols % kGroup != 0 ? Codec::kQ82f : codec;
}

float largest_weight(Codec codec) noexcept {
  constexpr float kLargestHalf = 65504.0F;
  switch (codec) {
    case Codec::kF32:
    case Codec::kBf16:
      return std::numeric_limits<float>::max();
    case Codec::kQ8Row:
    case Codec::kQ82f:
      return kLargestHalf * 127.0F;
    case Codec::kQ4Block:
    case Codec::kQ4Tiled:
    case Codec::kQ4tp:
      return kLargestHalf * 7.0F;
    default:
      return kLargestHalf;
  }
}

std::vector<std::byte> encode(Codec codec, ConstMatrixView<float> w, const EncodeOptions& options,
                              Pool& pool) {
  CORTIQ_ASSERT(codec == Codec::kQ4Tiled || with_column_fallback(codec, w.cols()) == codec);
  switch (codec) {
    case Codec::kF32:
    case Codec::kF16:
    case Codec::kBf16:
      return encode_plain(codec, w, pool);
    case Codec::kQ8Row:
      return encode_q8_row(w, pool);
    case Codec::kQ82f:
      return encode_q8_2f(w, pool);
    case Codec::kQ4Block:
    case Codec::kQ4Tiled:
      return encode_q4(codec, w, pool);
    case Codec::kQ4tp:
      return encode_q4tp(w, options.rung_search, pool);
    case Codec::kQ2tp:
      if (options.q2tp_v1 || !options.rung_search)
        return encode_q2tp_v1(w, options.rung_search, pool);
      return encode_q2tp(w, pool);
    case Codec::kQ1:
      return encode_q1(w, false, pool);
    case Codec::kQ1p:
      return encode_q1(w, true, pool);
    case Codec::kQ1s:
      return encode_q1s(w, options.q1s_keep, pool);
    case Codec::kQ1t:
      return encode_q1t(w, options.q1t_row_rescale, pool);
    case Codec::kVbit:
      return encode_vbit(w, options.vbit_mean_bits, true, pool);
    case Codec::kMxfp4:
      return encode_mxfp4(w, pool);
  }
  fail(ErrorKind::kUnsupported, "codec {} has no encoder; choose another", static_cast<int>(codec));
}

std::vector<std::byte> encode_vbit_legacy(ConstMatrixView<float> w, float mean_bits, Pool& pool) {
  CORTIQ_ASSERT(w.cols() % kGroup == 0);
  return encode_vbit(w, mean_bits, false, pool);
}

std::optional<std::int64_t> find_non_finite(ConstMatrixView<float> w, Pool& pool) {
  constexpr std::int64_t kNone = std::numeric_limits<std::int64_t>::max();
  const std::int64_t grain = row_grain(w);
  std::vector<std::int64_t> first(static_cast<std::size_t>((w.rows() + grain - 1) / grain), kNone);
  pool.for_ranges(w.rows(), grain, [&](std::int64_t begin, std::int64_t end) {
    for (std::int64_t r = begin; r < end; ++r) {
      const float* row = w.row(r);
      // x*0 is 0 for finite x and NaN else: a sum without branches finds the row, a second pass the
      // place.
      float sum = 0.0F;
      for (std::int64_t c = 0; c < w.cols(); ++c) sum += row[c] * 0.0F;
      if (sum == 0.0F) continue;
      const float* bad =
          std::find_if(row, row + w.cols(), [](float x) { return !std::isfinite(x); });
      first[static_cast<std::size_t>(begin / grain)] = r * w.cols() + (bad - row);
      return;
    }
  });
  for (const std::int64_t at : first) {
    if (at != kNone) return at;
  }
  return std::nullopt;
}

}  // namespace cortiq::codec
