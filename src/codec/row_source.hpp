// row_source.hpp: what one payload format gives to RowDecoder: validation at construction, then
// rows of f32. One factory per codec unit. All keep the span, not a copy; all throw Error{kInput}
// for a payload that does not fit.
#pragma once

#include <cstddef>
#include <cstdint>
#include <memory>

#include "cortiq/cmf/dtype.hpp"
#include "cortiq/codec/decode.hpp"
#include "cortiq/support/bytes.hpp"
#include "cortiq/support/cpu.hpp"

namespace cortiq::codec {

struct Dims {
  std::int64_t rows = 0;
  std::int64_t cols = 0;
};

class RowSource {
 public:
  explicit RowSource(Dims dims) : dims_(dims) {}
  virtual ~RowSource() = default;
  RowSource(const RowSource&) = delete;
  RowSource& operator=(const RowSource&) = delete;

  [[nodiscard]] Dims dims() const noexcept { return dims_; }
  /// Writes cols values of row r. Same bits at every level.
  virtual void decode_row(std::int64_t r, float* out, SimdLevel level) const = 0;

 private:
  Dims dims_;
};

using RowSourcePtr = std::unique_ptr<const RowSource>;

/// f32, f16, bf16.
[[nodiscard]] RowSourcePtr make_plain_source(cmf::DType dtype, Dims dims, ByteSpan payload);
/// q8_row, q8_2f.
[[nodiscard]] RowSourcePtr make_q8_source(cmf::DType dtype, Dims dims, ByteSpan payload);
/// q4_block, q4_tiled: groups of 32 of the flattened tensor.
[[nodiscard]] RowSourcePtr make_q4_source(cmf::DType dtype, Dims dims, ByteSpan payload);
/// q4tp, q2tp.
[[nodiscard]] RowSourcePtr make_planes_source(cmf::DType dtype, Dims dims, ByteSpan payload,
                                              LadderKind ladder);
/// q1, q1g.
[[nodiscard]] RowSourcePtr make_q1_source(cmf::DType dtype, Dims dims, ByteSpan payload);
[[nodiscard]] RowSourcePtr make_q1s_source(Dims dims, ByteSpan payload);
[[nodiscard]] RowSourcePtr make_q1t_source(Dims dims, ByteSpan payload);
/// vbit, vbit_ro.
[[nodiscard]] RowSourcePtr make_vbit_source(cmf::DType dtype, Dims dims, ByteSpan payload);
[[nodiscard]] RowSourcePtr make_mxfp4_source(Dims dims, ByteSpan payload);

}  // namespace cortiq::codec
