// codec.hpp: the weight codecs a user can name, and encoding of a whole matrix (codecs.md sections 2 to 10).
// Bytes are specified: the same for every thread count, instruction set and machine (vbit excepted: platform log2f).
#pragma once

#include <cstddef>
#include <cstdint>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "cortiq/cmf/dtype.hpp"
#include "cortiq/support/parallel.hpp"
#include "cortiq/support/view.hpp"

namespace cortiq::codec {

enum class Codec { kF32, kF16, kBf16, kQ8Row, kQ82f, kQ4Block, kQ4Tiled, kQ4tp, kQ2tp, kQ1, kQ1p, kQ1s, kQ1t, kVbit, kMxfp4 };

/// Canonical name ("q8", "q8_2f", "q4t", "q4tp", …).
[[nodiscard]] std::string_view codec_name(Codec codec) noexcept;
/// All aliases of codecs.md 10.1, ASCII case-insensitive; nullopt if unknown. (q2tp_affine and fp4 are not codecs.)
[[nodiscard]] std::optional<Codec> try_parse_codec(std::string_view name) noexcept;
/// "q8, q8_2f, …" for error messages.
[[nodiscard]] std::string codec_names();
[[nodiscard]] cmf::DType dtype_of(Codec codec) noexcept;
/// The codec itself, or q8_2f if it needs cols % 32 == 0 and cols has not (codecs.md 10.2).
[[nodiscard]] Codec with_column_fallback(Codec codec, std::int64_t cols) noexcept;

struct EncodeOptions {
  bool rung_search = true;        ///< q4tp, q2tp: CMF_Q2TP_SEARCH
  bool q2tp_v1 = false;           ///< absmax-pinned q2tp encoder
  float q1s_keep = 0.01F;         ///< share of weights kept as f16, clamped to [0, 0.25]
  float vbit_mean_bits = 4.25F;   ///< clamped to [3, 8]
  bool q1t_row_rescale = true;
};

/// Largest magnitude that a codec surely holds: its values or scales are halves. Beyond it encode() may store infinity.
[[nodiscard]] float largest_weight(Codec codec) noexcept;

/// Encodes w [rows, cols]. Requires finite values: call check_finite first. kQ4tp…kMxfp4 require cols % 32 == 0.
[[nodiscard]] std::vector<std::byte> encode(Codec codec, ConstMatrixView<float> w, const EncodeOptions& options, Pool& pool);

/// Index (row*cols + col) of the first NaN or infinity in row-major order; nullopt if all are finite.
[[nodiscard]] std::optional<std::int64_t> find_non_finite(ConstMatrixView<float> w, Pool& pool);

}  // namespace cortiq::codec
