#include "one_bit_sweep.hpp"

#include <algorithm>
#include <chrono>
#include <cmath>

#include "metrics.hpp"
#include "one_bit_chunk.hpp"

namespace cortiq::gptq {

namespace {

using Clock = std::chrono::steady_clock;

constexpr std::int64_t kRowGrain = 8;

std::size_t at(std::int64_t i) { return static_cast<std::size_t>(i); }

template <typename Fn>
void timed(double& seconds, Fn&& fn) {
  const auto begin = Clock::now();
  fn();
  seconds += std::chrono::duration<double>(Clock::now() - begin).count();
}

/// Energies of the channels; 1 where the calibration says too little about the input.
std::vector<double> channel_energies(ConstMatrixView<double> h_upper, const HostFactor& factor) {
  std::vector<double> energies(at(h_upper.rows()), 1.0);
  if (factor.mostly_dead) return energies;
  for (std::int64_t i = 0; i < h_upper.rows(); ++i)
    energies[at(i)] = h_upper(i, i) > 0 ? h_upper(i, i) : 0.0;
  return energies;
}

std::vector<float> roots(const std::vector<double>& energies) {
  std::vector<float> rms(energies.size());
  std::transform(energies.begin(), energies.end(), rms.begin(),
                 [](double e) { return static_cast<float>(std::sqrt(e)); });
  return rms;
}

void sweep_chunk(const SweepPlan& plan, ConstMatrixView<float> w, std::int64_t first,
                 OneBitCodes& codes, Pool& pool, SweepTimes& times) {
  OneBitChunk chunk(plan, w, first, std::min(kChunkRows, w.rows() - first), codes.mask, pool);
  timed(times.sweep_seconds, [&] {
    chunk.run();
    const bool rescale = plan.options.target == Target::kQ1t && plan.options.one_bit.row_rescale;
    if (rescale) chunk.rescale_rows();
  });
  timed(times.polish_seconds, [&] { chunk.polish(plan.options.polish); });
  chunk.store(codes);
}

/// Output error and energy of all rows, in chunks.
void measure(ConstMatrixView<float> w, ConstMatrixView<double> h_upper, const OneBitCodes& codes,
             Pool& pool, SweepResult& result) {
  for (std::int64_t first = 0; first < w.rows(); first += kChunkRows) {
    const std::int64_t count = std::min(kChunkRows, w.rows() - first);
    std::vector<double> original(at(count * w.cols()));
    std::vector<double> error(original.size());
    pool.for_ranges(count, kRowGrain, [&](std::int64_t begin, std::int64_t end) {
      for (std::int64_t r = begin; r < end; ++r) {
        const std::span out = std::span(error).subspan(at(r * w.cols()), at(w.cols()));
        codes.dequantize(first + r, out);
        for (std::int64_t c = 0; c < w.cols(); ++c) {
          const double value = static_cast<double>(w(first + r, c));
          original[at(r * w.cols() + c)] = value;
          out[at(c)] = value - out[at(c)];
        }
      }
    });
    std::vector<double> rows(at(count));
    quadratic_rows({error.data(), count, w.cols()}, h_upper, rows, pool);
    for (const double value : rows) result.output_error += value;
    quadratic_rows({original.data(), count, w.cols()}, h_upper, rows, pool);
    for (const double value : rows) result.output_energy += value;
  }
}

std::int64_t zero_groups(const OneBitCodes& codes) {
  std::int64_t count = 0;
  for (std::size_t i = 0; i < codes.codes.size(); i += kGroupCols) {
    const auto begin = codes.codes.begin() + static_cast<std::ptrdiff_t>(i);
    count += std::all_of(begin, begin + kGroupCols, [](std::int8_t c) { return c == 0; }) ? 1 : 0;
  }
  return count;
}

}  // namespace

SweepResult sweep_one_bit(ConstMatrixView<float> w, ConstMatrixView<double> h_upper,
                          const HostFactor& factor, const SweepOptions& options, Pool& pool,
                          SweepTimes& times) {
  CORTIQ_ASSERT(is_one_bit(options.target) && options.order != Order::kAct);
  check_one_bit_shape(options.target, w.rows(), w.cols());
  const std::vector<double> energies = channel_energies(h_upper, factor);
  OneBitCodes codes(w.rows(), w.cols(), choose_overlay(w, roots(energies), options.one_bit));
  if (options.one_bit.feedback && !factor.identity) {
    const SweepPlan plan(factor, h_upper, options, pool);
    for (std::int64_t first = 0; first < w.rows(); first += kChunkRows)
      sweep_chunk(plan, w, first, codes, pool, times);
  } else {
    timed(times.sweep_seconds, [&] {
      round_rows(w, energies, options.target, options.one_bit.row_rescale, codes, pool);
    });
  }
  codes.check_finite(options.target);
  SweepResult result;
  timed(times.measure_seconds, [&] { measure(w, h_upper, codes, pool, result); });
  result.dead_groups = zero_groups(codes);
  result.payload = pack_one_bit(codes, options.target);
  return result;
}

}  // namespace cortiq::gptq
