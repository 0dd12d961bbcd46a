// encoders.hpp: one function per encoder of codecs.md, for codec.cpp. w is finite; grouped codecs
// need cols % 32 == 0 (checked by the caller), but q4_block and q4_tiled pad. Bytes do not depend
// on the pool.
#pragma once

#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <vector>

#include "cortiq/codec/codec.hpp"
#include "cortiq/support/bytes.hpp"

namespace cortiq::codec {

using Payload = std::vector<std::byte>;
using Weights = ConstMatrixView<float>;

[[nodiscard]] Payload encode_plain(Codec codec, Weights w, Pool& pool);
[[nodiscard]] Payload encode_q8_row(Weights w, Pool& pool);
[[nodiscard]] Payload encode_q8_2f(Weights w, Pool& pool);
/// q4_block, q4_tiled.
[[nodiscard]] Payload encode_q4(Codec codec, Weights w, Pool& pool);
[[nodiscard]] Payload encode_q4tp(Weights w, bool search, Pool& pool);
/// Placement, rounding, debias.
[[nodiscard]] Payload encode_q2tp(Weights w, Pool& pool);
[[nodiscard]] Payload encode_q2tp_v1(Weights w, bool search, Pool& pool);
/// carry: q1p, the rounding error of a weight is added to the next one of its row.
[[nodiscard]] Payload encode_q1(Weights w, bool carry, Pool& pool);
[[nodiscard]] Payload encode_q1s(Weights w, float keep, Pool& pool);
[[nodiscard]] Payload encode_q1t(Weights w, bool row_rescale, Pool& pool);
/// offsets: dtype 10 (vbit_ro), else dtype 8.
[[nodiscard]] Payload encode_vbit(Weights w, float mean_bits, bool offsets, Pool& pool);
[[nodiscard]] Payload encode_mxfp4(Weights w, Pool& pool);

/// Rows per task of a loop over the rows of w: at least a few thousand weights.
[[nodiscard]] inline std::int64_t row_grain(Weights w) noexcept {
  constexpr std::int64_t kWeightsPerTask = 1 << 14;
  return w.cols() > 0 ? std::max<std::int64_t>(1, kWeightsPerTask / w.cols()) : kWeightsPerTask;
}

[[nodiscard]] inline std::uint8_t* bytes_at(Payload& payload, std::int64_t offset) noexcept {
  return reinterpret_cast<std::uint8_t*>(payload.data()) + offset;
}

[[nodiscard]] inline Payload make_payload(std::int64_t bytes) {
  return Payload(static_cast<std::size_t>(bytes));
}

}  // namespace cortiq::codec
