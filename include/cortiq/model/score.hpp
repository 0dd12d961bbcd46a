// score.hpp: negative log-likelihood, perplexity and KL divergence of token windows (cli.md, "Judging").
#pragma once

#include <cstdint>
#include <functional>
#include <vector>

#include "cortiq/model/forward.hpp"

namespace cortiq::model {

/// Which tokens of which windows are scored.
struct ScoredWindows {
  Windows windows;
  std::vector<std::int64_t> first_scored;  ///< per window: index inside the window (>= 1) of the first scored token
  [[nodiscard]] std::int64_t scored_tokens() const;
};

/// Windows of `window` ids every `stride` ids (stride == window: no overlap); a trailing part is dropped. In the first
/// window every token after its first is scored, in later ones with stride < window only the new ones. bos >= 0 is put in
/// front of each window, whose tokens are then all scored. This is the rule of the model zoo.
[[nodiscard]] ScoredWindows scored_windows(const std::vector<TokenId>& ids, std::int64_t window, std::int64_t stride, TokenId bos);

struct Perplexity {
  double perplexity = 0;
  double mean_nll = 0;      ///< nats per scored token
  std::int64_t tokens = 0;  ///< scored
  std::vector<float> nll;   ///< per scored token, in order
  std::int64_t window = 0;  ///< tokens per context without BOS, where the caller sets it
};
[[nodiscard]] Perplexity perplexity(const Forward& forward, const ScoredWindows& windows,
                                    const std::function<void(std::int64_t done, std::int64_t total)>& progress = {});

struct Divergence {
  double mean_kl = 0;       ///< KL(base || test), nats per scored token
  double median_kl = 0;
  double p99_kl = 0;
  double top1_agreement = 0;
  double base_perplexity = 0;
  double test_perplexity = 0;
  std::int64_t tokens = 0;
  std::int64_t window = 0;  ///< as above
};
/// Both models must have the same vocabulary. The logits of a model are never held whole.
[[nodiscard]] Divergence divergence(const Forward& base, const Forward& test, const ScoredWindows& windows,
                                    const std::function<void(std::int64_t done, std::int64_t total)>& progress = {});

}  // namespace cortiq::model
