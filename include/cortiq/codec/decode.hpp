// decode.hpp: any CMF dtype that has a decoder -> f32 (cmf.md section 4).
#pragma once

#include <cstdint>
#include <memory>
#include <span>
#include <string>

#include "cortiq/cmf/dtype.hpp"
#include "cortiq/support/bytes.hpp"
#include "cortiq/support/parallel.hpp"
#include "cortiq/support/view.hpp"

namespace cortiq::codec {

/// Which exp2 builds the ladders of q4tp and q2tp: readers use the C library's, encoders and debias the deterministic.
enum class LadderKind { kRuntime, kDeterministic };

/// Random access to the rows of one tensor. Keeps a view of the payload, no copy of the weights.
class RowDecoder {
 public:
  /// Validates payload against dtype and shape (size, q1s/q1t spans, vbit table). A tensor of rank != 2 is one row per
  /// leading index for the float types (rank 1: a single row) and one flat row for q4_block.
  /// Throws Error{kInput} or Error{kUnsupported} without naming the tensor (callers add it with with_context).
  RowDecoder(cmf::DType dtype, std::span<const std::int64_t> shape, ByteSpan payload,
             LadderKind ladder = LadderKind::kRuntime);
  ~RowDecoder();
  RowDecoder(RowDecoder&&) noexcept;

  [[nodiscard]] std::int64_t rows() const noexcept;
  [[nodiscard]] std::int64_t cols() const noexcept;
  /// Writes rows [first, first + out.rows()) to out (out.cols() == cols()). Thread safe.
  void decode(std::int64_t first, MatrixView<float> out) const;
  /// The whole matrix, rows split over the pool.
  void decode_all(MatrixView<float> out, Pool& pool) const;

 private:
  struct State;
  std::unique_ptr<const State> state_;
};

}  // namespace cortiq::codec
