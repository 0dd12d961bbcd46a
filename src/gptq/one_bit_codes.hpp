// one_bit_codes.hpp: a matrix in q1s or q1t before it is packed, and the choice of the weights that
// its overlay holds (gptq.md sections 8.1 and 8.2).
#pragma once

#include <cstddef>
#include <cstdint>
#include <span>
#include <vector>

#include "cortiq/gptq/one_bit.hpp"

namespace cortiq::gptq {

/// Places of the overlay, by row and then by column.
struct OverlayMask {
  std::vector<std::size_t> row_begin;  ///< [rows + 1] into cols
  std::vector<std::uint32_t> cols;
  [[nodiscard]] std::span<const std::uint32_t> row(std::int64_t r) const {
    const std::size_t begin = row_begin[static_cast<std::size_t>(r)];
    return std::span(cols).subspan(begin, row_begin[static_cast<std::size_t>(r) + 1] - begin);
  }
};

/// The entries with the highest |w|*rms, or the columns with the highest max |w|*rms; of equal ones
/// the first.
[[nodiscard]] OverlayMask choose_overlay(ConstMatrixView<float> w, std::span<const float> rms,
                                         const OneBitOptions& options);

struct OneBitCodes {
  OneBitCodes(std::int64_t rows, std::int64_t cols, OverlayMask mask);
  std::int64_t rows;
  std::int64_t cols;
  OverlayMask mask;
  std::vector<std::uint16_t> scales;   ///< halves [rows][cols/32]
  std::vector<std::int8_t> codes;      ///< -1, 0, 1 [rows][cols]; under the overlay: see pack
  std::vector<std::uint16_t> overlay;  ///< halves, one per place of the mask

  /// out[c] = value of column c of the row.
  void dequantize(std::int64_t row, std::span<double> out) const;
  /// Throws Error{kNumeric} naming the first row whose scales or overlay are infinite.
  void check_finite(Target target) const;
};

/// q1s stores a sign under the overlay, q1t the code 0.
[[nodiscard]] std::vector<std::byte> pack_one_bit(const OneBitCodes& codes, Target target);

/// Rounding by rows with a weight per channel, no feedback, f32 as the existing tool does it.
/// weights: rms^2 by channel.
void round_rows(ConstMatrixView<float> w, std::span<const double> weights, Target target,
                bool row_rescale, OneBitCodes& codes, Pool& pool);

}  // namespace cortiq::gptq
