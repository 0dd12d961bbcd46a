#include <algorithm>
#include <cmath>
#include <limits>

#include "cortiq/model/score.hpp"
#include "cortiq/support/cpu.hpp"
#include "kernels.hpp"
#include "score_chunk.hpp"

namespace cortiq::model {
namespace {

constexpr std::int64_t kRows = 1024;  ///< scored positions per product with a block of the heads
constexpr double kMinusInfinity = -std::numeric_limits<double>::infinity();

struct TokenSums {
  DivergenceSums sums{{kMinusInfinity, 0.0}, {kMinusInfinity, 0.0}, 0.0};
  double base_target = 0;
  double test_target = 0;
  float base_best = -std::numeric_limits<float>::infinity();
  float test_best = -std::numeric_limits<float>::infinity();
  std::int64_t base_top = 0;
  std::int64_t test_top = 0;
};

/// One model's side: its head, and memory for one block and its logits.
struct Side {
  Side(const Forward& forward, std::vector<float> states, std::int64_t block_rows,
       std::int64_t rows)
      : head(forward.head()),
        hidden(forward.arch().hidden),
        normed(std::move(states)),
        block(static_cast<std::size_t>(block_rows * hidden)),
        logits(static_cast<std::size_t>(rows * block_rows)) {}

  void decode(std::int64_t first, std::int64_t width) {
    head.decode(first, {block.data(), width, hidden});
    block_width = width;
  }
  MatrixView<float> run(std::int64_t first, std::int64_t count) {
    const MatrixView<float> out(logits.data(), count, block_width);
    head.logits({normed.data() + first * hidden, count, hidden},
                {block.data(), block_width, hidden}, out);
    return out;
  }

  const Head& head;
  std::int64_t hidden;
  std::vector<float> normed;
  std::vector<float> block;
  std::vector<float> logits;
  std::int64_t block_width = 0;
};

/// Lowest index wins a tie.
void update_top(const float* x, std::int64_t n, std::int64_t first, float* best,
                std::int64_t* top) {
  const float* largest = std::max_element(x, x + n);
  if (*largest > *best) {
    *best = *largest;
    *top = first + (largest - x);
  }
}

std::vector<TokenSums> run_blocks(const Forward& base, const ScoreChunk& chunk, Side& left,
                                  Side& right, std::int64_t block_rows) {
  Pool& pool = base.pool();
  const std::int64_t vocab = base.arch().vocab;
  const auto rows = static_cast<std::int64_t>(chunk.targets.size());
  std::vector<TokenSums> sums(chunk.targets.size());
  for (std::int64_t v = 0; v < vocab; v += block_rows) {
    const std::int64_t width = std::min(block_rows, vocab - v);
    left.decode(v, width);
    right.decode(v, width);
    for (std::int64_t first = 0; first < rows; first += kRows) {
      const std::int64_t count = std::min(kRows, rows - first);
      const MatrixView<float> a = left.run(first, count);
      const MatrixView<float> b = right.run(first, count);
      pool.for_each(count, [&](std::int64_t r) {
        TokenSums& token = sums[static_cast<std::size_t>(first + r)];
        CORTIQ_SIMD_DISPATCH(pool.simd(), add_divergence, a.row(r), b.row(r), width, &token.sums);
        update_top(a.row(r), width, v, &token.base_best, &token.base_top);
        update_top(b.row(r), width, v, &token.test_best, &token.test_top);
        const std::int64_t target = chunk.targets[static_cast<std::size_t>(first + r)] - v;
        if (target < 0 || target >= width) return;
        token.base_target = static_cast<double>(a(r, target));
        token.test_target = static_cast<double>(b(r, target));
      });
    }
  }
  return sums;
}

double log_sum(const LogSum& sum) { return sum.max + std::log(sum.sum); }

/// Totals over all tokens, filled in token order.
struct Totals {
  double base_nll = 0;
  double test_nll = 0;
  std::int64_t same_top = 0;
  std::vector<double> kl;

  void add(const TokenSums& token) {
    const double base = log_sum(token.sums.base);
    const double test = log_sum(token.sums.test);
    // sum of p*(b - t) with p = exp(b - base), minus the difference of the normalizers
    const double value = token.sums.cross / token.sums.base.sum - base + test;
    if (!std::isfinite(value)) {
      fail(ErrorKind::kNumeric,
           "logits are not finite at scored token {}; the weights of a model are damaged",
           kl.size());
    }
    kl.push_back(value);
    base_nll += base - token.base_target;
    test_nll += test - token.test_target;
    if (token.base_top == token.test_top) ++same_top;
  }

  [[nodiscard]] Divergence finish() {
    Divergence result;
    result.tokens = static_cast<std::int64_t>(kl.size());
    if (kl.empty())
      fail(ErrorKind::kInput, "no token to score; the text is shorter than one window");
    const auto count = static_cast<double>(kl.size());
    double sum = 0;
    for (const double value : kl) sum += value;
    std::sort(kl.begin(), kl.end());
    const auto quantile = [&](double q) {
      return kl[static_cast<std::size_t>(q * (count - 1) + 0.5)];
    };
    result.mean_kl = sum / count;
    result.median_kl = quantile(0.5);
    result.p99_kl = quantile(0.99);
    result.top1_agreement = static_cast<double>(same_top) / count;
    result.base_perplexity = std::exp(base_nll / count);
    result.test_perplexity = std::exp(test_nll / count);
    return result;
  }
};

}  // namespace

Divergence divergence(const Forward& base, const Forward& test, const ScoredWindows& windows,
                      const std::function<void(std::int64_t, std::int64_t)>& progress) {
  if (base.arch().vocab != test.arch().vocab) {
    fail(ErrorKind::kInput,
         "the models have vocabularies of {} and {} tokens; only models of one vocabulary can be "
         "compared",
         base.arch().vocab, test.arch().vocab);
  }
  ScoreProgress reporter(progress, windows.windows.tokens(),
                         base.arch().layers + test.arch().layers + 1);
  const std::int64_t block_rows = std::min(base.head().block_rows(), test.head().block_rows());
  Totals totals;
  for (const ScoreChunk& chunk :
       cut_chunks(windows, std::max(base.arch().hidden, test.arch().hidden))) {
    const std::int64_t rows = std::min(kRows, static_cast<std::int64_t>(chunk.targets.size()));
    Side left(base, scored_states(base, chunk, reporter), block_rows, rows);
    Side right(test, scored_states(test, chunk, reporter), block_rows, rows);
    for (const TokenSums& token : run_blocks(base, chunk, left, right, block_rows))
      totals.add(token);
    reporter.add(chunk.windows.tokens());
  }
  return totals.finish();
}

}  // namespace cortiq::model
