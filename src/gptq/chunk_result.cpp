// chunk_result.cpp: what follows the sweep of a chunk: output error, debias (gptq.md section 7) and
// packing.
#include <algorithm>
#include <cmath>

#include "chunk_sweep.hpp"
#include "cortiq/support/bytes.hpp"
#include "cortiq/support/half.hpp"
#include "metrics.hpp"
#include "row_ladder.hpp"

namespace cortiq::gptq {

namespace {

constexpr std::int64_t kRowGrain = 8;
constexpr std::uint8_t kQ4ZeroCode = 8;

std::size_t at(std::int64_t i) { return static_cast<std::size_t>(i); }

double ordered_sum(const std::vector<double>& values) {
  double sum = 0;
  for (const double value : values) sum += value;
  return sum;
}

}  // namespace

void ChunkSweep::natural_codes(std::int64_t row, std::int64_t first,
                               std::span<std::uint8_t> out) const {
  const std::uint8_t* slab =
      codes_.data() + row / kSlabRows * kSlabRows * plan_.cols + row % kSlabRows;
  const std::int64_t* positions = plan_.position_of.data() + first;
  for (std::size_t i = 0; i < out.size(); ++i) out[i] = slab[positions[i] * kSlabRows];
}

void ChunkSweep::dequantize(std::int64_t row, std::int64_t first, std::span<double> out) const {
  const double offset = plan_.four_bit ? 8.0 : 1.5;
  std::vector<std::uint8_t> codes(out.size());
  natural_codes(row, first, codes);
  for (std::int64_t i = 0; i < static_cast<std::int64_t>(out.size()); ++i) {
    const std::uint8_t chosen = rung(row, (first + i) / kGroupCols);
    const int stored = chosen == kNoRung ? 0 : chosen;
    const double scale = static_cast<double>(tables_[at(row * codec::kRungs + stored)]);
    out[at(i)] = (static_cast<double>(codes[at(i)]) - offset) * scale;
  }
}

/// Overwrites work_ with the original weights (or W - Q), natural order.
void ChunkSweep::fill_natural(bool subtract_quantized) {
  pool_.for_ranges(rows_, kRowGrain, [&](std::int64_t begin, std::int64_t end) {
    std::vector<double> quantized(at(plan_.cols), 0.0);
    for (std::int64_t r = begin; r < end; ++r) {
      if (subtract_quantized) dequantize(r, 0, quantized);
      double* out = work_.data() + r * plan_.cols;
      for (std::int64_t c = 0; c < plan_.cols; ++c)
        out[c] = static_cast<double>(w_(r, c)) - quantized[at(c)];
    }
  });
}

/// What the damping and the unit diagonal of dead channels contribute to a row's damped loss.
double ChunkSweep::damped_share(std::int64_t row) const {
  std::vector<double> quantized(at(plan_.cols));
  dequantize(row, 0, quantized);
  double live = 0;
  double dead = 0;
  for (std::int64_t c = 0; c < plan_.cols; ++c) {
    const double q = quantized[at(c)];
    if (plan_.factor.dead[at(c)] != 0) {
      dead += q * q;  // the sweep saw a zero weight
    } else {
      const double difference = static_cast<double>(w_(row, c)) - q;
      live += difference * difference;
    }
  }
  return plan_.factor.damping * live + (1.0 + plan_.factor.damping) * dead;
}

/// (W-Q) H (W-Q)^T by row. The sweep's residuals give it without a product, because the damped loss
/// of a row is sum_j e_j^2 (docs/quality.md); only plain rounding, and an H that is not zero at
/// dead channels, need one.
std::vector<double> ChunkSweep::loss_of_rows() {
  std::vector<double> error_rows(at(rows_));
  if (!plan_.factor.identity && plan_.factor.dead_rows_zero) {
    pool_.for_ranges(rows_, kRowGrain, [&](std::int64_t begin, std::int64_t end) {
      for (std::int64_t r = begin; r < end; ++r) error_rows[at(r)] = loss_[at(r)] - damped_share(r);
    });
    return error_rows;
  }
  fill_natural(true);
  quadratic_rows(ConstMatrixView<double>(work_.data(), rows_, plan_.cols), plan_.h_upper,
                 error_rows, pool_);
  return error_rows;
}

void ChunkSweep::measure() {
  std::vector<double> error_rows = loss_of_rows();
  fill_natural(false);
  if (plan_.options.debias) {
    debias(error_rows);
  } else {
    std::vector<double> energy_rows(at(rows_));
    quadratic_rows(ConstMatrixView<double>(work_.data(), rows_, plan_.cols), plan_.h_upper,
                   energy_rows, pool_);
    energy_ = ordered_sum(energy_rows);
  }
  error_ = ordered_sum(error_rows);
}

/// With Q' = a*Q: W - Q' = (1-a)*W + a*(W-Q), so the new error follows from the products at hand.
/// (a is the same for all rungs up to the f32 rounding of the ladder.)
void ChunkSweep::debias(std::vector<double>& error_rows) {
  std::vector<double> energy_rows(at(rows_));
  std::vector<double> slope_rows(at(rows_));
  const RowReader quantized = [this](std::int64_t r, std::int64_t first, std::span<double> out) {
    dequantize(r, first, out);
  };
  product_rows(ConstMatrixView<double>(work_.data(), rows_, plan_.cols), quantized, plan_.h_upper,
               energy_rows, slope_rows, pool_);
  for (std::int64_t r = 0; r < rows_; ++r) {
    const codec::LadderParams before = params_[at(r)];
    const codec::LadderParams after =
        codec::unshrink(before, slope_rows[at(r)], energy_rows[at(r)]);
    if (after == before) continue;
    set_ladder(r, after);
    const double a = std::exp2(static_cast<double>(f16_to_f32(after.lo)) -
                               static_cast<double>(f16_to_f32(before.lo)));
    const double energy = energy_rows[at(r)];
    const double cross = energy - slope_rows[at(r)];
    error_rows[at(r)] =
        (1 - a) * (1 - a) * energy + 2 * a * (1 - a) * cross + a * a * error_rows[at(r)];
  }
  check_ladders();
  energy_ = ordered_sum(energy_rows);
}

std::int64_t ChunkSweep::pack(std::span<std::byte> payload, std::int64_t tensor_rows) const {
  const codec::PlaneLayout layout =
      codec::plane_layout(plan_.four_bit ? 4 : 2, tensor_rows, plan_.cols);
  std::vector<std::int64_t> zero_groups(at(rows_), 0);
  pool_.for_ranges(rows_, kRowGrain, [&](std::int64_t begin, std::int64_t end) {
    for (std::int64_t r = begin; r < end; ++r) zero_groups[at(r)] = pack_row(r, layout, payload);
  });
  std::int64_t total = 0;
  for (const std::int64_t count : zero_groups) total += count;
  return total;
}

std::int64_t ChunkSweep::pack_row(std::int64_t row, const codec::PlaneLayout& layout,
                                  std::span<std::byte> payload) const {
  const unsigned bits = plan_.four_bit ? 4 : 2;
  const std::size_t per_byte = 8 / bits;
  std::vector<std::uint8_t> codes(at(plan_.cols));
  natural_codes(row, 0, codes);
  auto* bytes = reinterpret_cast<std::uint8_t*>(payload.data());
  const std::size_t row_bytes = codes.size() / per_byte;
  std::uint8_t* out = bytes + at(first_row_ + row) * row_bytes;
  for (std::size_t b = 0; b < row_bytes; ++b) {
    unsigned packed = 0;
    for (std::size_t k = 0; k < per_byte; ++k) {
      packed |= static_cast<unsigned>(codes[b * per_byte + k]) << (static_cast<unsigned>(k) * bits);
    }
    out[b] = static_cast<std::uint8_t>(packed);
  }
  std::uint8_t* params = bytes + layout.params_offset + 4 * (first_row_ + row);
  store_le(params, params_[at(row)].lo);
  store_le(params + 2, params_[at(row)].step);
  std::uint8_t* rung_row = bytes + layout.rungs_offset + (first_row_ + row) * layout.rung_row_bytes;
  std::int64_t zero_groups = 0;
  for (std::int64_t g = 0; g < group_count_; ++g) {
    const std::uint8_t chosen = rung(row, g);
    const unsigned stored = chosen == kNoRung ? 0U : chosen;
    codec::put_rung(rung_row, g, stored);
    const std::uint8_t* group = codes.data() + g * kGroupCols;
    const bool zero = plan_.four_bit ? std::all_of(group, group + kGroupCols,
                                                   [](auto c) { return c == kQ4ZeroCode; })
                                     : stored == 0;
    if (zero) ++zero_groups;
  }
  return zero_groups;
}

}  // namespace cortiq::gptq
