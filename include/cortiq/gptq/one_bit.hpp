// one_bit.hpp: q1s and q1t (gptq.md section 8): sizes, and rounding without calibration. Their
// sweep is Backend::sweep with Target::kQ1s or kQ1t.
#pragma once

#include <cstddef>
#include <cstdint>
#include <vector>

#include "cortiq/gptq/options.hpp"
#include "cortiq/support/parallel.hpp"
#include "cortiq/support/view.hpp"

namespace cortiq::gptq {

/// From this relative damping on q1s and q1t are rounded without feedback (as the existing tool).
inline constexpr double kNoFeedbackLambda = 1e5;

/// Weights that the overlay holds: round(rows*cols*keep), with a column mask whole columns of them;
/// 0 if that would be all.
[[nodiscard]] std::int64_t overlay_entries(std::int64_t rows, std::int64_t cols,
                                           const OneBitOptions& options);
/// Size of the payload; cols % 32 == 0.
[[nodiscard]] std::uint64_t one_bit_bytes(Target target, std::int64_t rows, std::int64_t cols,
                                          const OneBitOptions& options);

/// Throws Error{kUnsupported} for a matrix whose overlay cannot be addressed: q1s 2^32 weights, q1t
/// 65536 columns.
void check_one_bit_shape(Target target, std::int64_t rows, std::int64_t cols);

/// Payload of a matrix whose input is not known: all channels count the same. w finite; weights
/// beyond the range of halves: Error{kNumeric}. Same bytes for every Pool size.
[[nodiscard]] std::vector<std::byte> round_one_bit(ConstMatrixView<float> w, Target target,
                                                   const OneBitOptions& options, Pool& pool);

}  // namespace cortiq::gptq
