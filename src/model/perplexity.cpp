#include <algorithm>
#include <cmath>
#include <limits>

#include "cortiq/model/score.hpp"
#include "cortiq/support/cpu.hpp"
#include "kernels.hpp"
#include "score_chunk.hpp"

namespace cortiq::model {
namespace {

constexpr std::int64_t kRows = 1024;  ///< scored positions per product with a block of the head

struct TokenSum {
  LogSum sum{-std::numeric_limits<double>::infinity(), 0.0};
  double target = 0;
};

/// The head's blocks outside, positions inside: each block is decoded once.
std::vector<TokenSum> run_blocks(const Forward& forward, const ScoreChunk& chunk,
                                 std::vector<float>& normed) {
  const Head& head = forward.head();
  Pool& pool = forward.pool();
  const std::int64_t hidden = forward.arch().hidden;
  const std::int64_t vocab = forward.arch().vocab;
  const auto rows = static_cast<std::int64_t>(chunk.targets.size());
  const std::int64_t block_rows = head.block_rows();
  std::vector<TokenSum> sums(chunk.targets.size());
  std::vector<float> block(static_cast<std::size_t>(block_rows * hidden));
  std::vector<float> logits(static_cast<std::size_t>(std::min(rows, kRows) * block_rows));
  for (std::int64_t v = 0; v < vocab; v += block_rows) {
    const std::int64_t width = std::min(block_rows, vocab - v);
    const MatrixView<float> weight(block.data(), width, hidden);
    head.decode(v, weight);
    for (std::int64_t first = 0; first < rows; first += kRows) {
      const std::int64_t count = std::min(kRows, rows - first);
      const MatrixView<float> out(logits.data(), count, width);
      head.logits({normed.data() + first * hidden, count, hidden}, weight, out);
      pool.for_ranges(count, 16, [&](std::int64_t begin, std::int64_t end) {
        for (std::int64_t r = begin; r < end; ++r) {
          TokenSum& token = sums[static_cast<std::size_t>(first + r)];
          CORTIQ_SIMD_DISPATCH(pool.simd(), add_log_sum, out.row(r), width, &token.sum);
          const std::int64_t target = chunk.targets[static_cast<std::size_t>(first + r)] - v;
          if (target >= 0 && target < width) token.target = static_cast<double>(out(r, target));
        }
      });
    }
  }
  return sums;
}

}  // namespace

Perplexity perplexity(const Forward& forward, const ScoredWindows& windows,
                      const std::function<void(std::int64_t, std::int64_t)>& progress) {
  Perplexity result;
  ScoreProgress reporter(progress, windows.windows.tokens(), forward.arch().layers + 1);
  double total = 0;
  for (const ScoreChunk& chunk : cut_chunks(windows, forward.arch().hidden)) {
    std::vector<float> normed = scored_states(forward, chunk, reporter);
    for (const TokenSum& token : run_blocks(forward, chunk, normed)) {
      const double nll = token.sum.max + std::log(token.sum.sum) - token.target;
      if (!std::isfinite(nll)) {
        fail(ErrorKind::kNumeric,
             "logits are not finite at scored token {}; the head's weights are damaged",
             result.nll.size());
      }
      total += nll;
      result.nll.push_back(static_cast<float>(nll));
    }
    reporter.add(chunk.windows.tokens());
  }
  result.tokens = static_cast<std::int64_t>(result.nll.size());
  if (result.tokens == 0)
    fail(ErrorKind::kInput, "no token to score; the text is shorter than one window");
  result.mean_nll = total / static_cast<double>(result.tokens);
  result.perplexity = std::exp(result.mean_nll);
  return result;
}

}  // namespace cortiq::model
