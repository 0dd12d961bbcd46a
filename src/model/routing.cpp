#include "routing.hpp"

#include <algorithm>
#include <cmath>

namespace cortiq::model {
namespace {

constexpr std::int64_t kGrainRows = 64;

/// Scores of one row: a softmax over all experts or a sigmoid of each.
void score(bool sigmoid, const float* logits, std::vector<double>& scores) {
  const double top =
      sigmoid ? 0.0 : static_cast<double>(*std::max_element(logits, logits + scores.size()));
  double sum = 0;
  for (std::size_t e = 0; e < scores.size(); ++e) {
    const auto x = static_cast<double>(logits[e]);
    scores[e] = sigmoid ? 1.0 / (1.0 + std::exp(-x)) : std::exp(x - top);
    sum += scores[e];
  }
  if (sigmoid) return;
  for (double& value : scores) value /= sum;
}

/// The experts of the top_k greatest keys, in ascending order. A NaN never wins against a number
/// before it, so damaged rows still get top_k different experts.
void pick(std::span<const double> keys, std::span<std::int32_t> chosen) {
  for (std::size_t k = 0; k < chosen.size(); ++k) {
    const auto taken = chosen.first(k);
    std::int32_t best = -1;
    for (std::int32_t e = 0; e < static_cast<std::int32_t>(keys.size()); ++e) {
      const bool better =
          best < 0 || keys[static_cast<std::size_t>(e)] > keys[static_cast<std::size_t>(best)];
      if (better && std::find(taken.begin(), taken.end(), e) == taken.end()) best = e;
    }
    chosen[k] = best;
  }
  std::sort(chosen.begin(), chosen.end());
}

void share(const Experts& experts, std::span<const double> scores,
           std::span<const std::int32_t> chosen, std::span<float> out) {
  double sum = experts.renormalise ? 0.0 : 1.0;
  if (experts.renormalise) {
    for (const std::int32_t e : chosen) sum += scores[static_cast<std::size_t>(e)];
  }
  for (std::size_t k = 0; k < chosen.size(); ++k) {
    out[k] = static_cast<float>(scores[static_cast<std::size_t>(chosen[k])] / sum * experts.scale);
  }
}

}  // namespace

void Routing::choose(const Experts& experts, ConstMatrixView<float> logits,
                     std::span<const float> bias, Pool& pool) {
  const auto top_k = static_cast<std::size_t>(experts.top_k);
  const auto count = static_cast<std::size_t>(logits.cols());
  choice_.resize(static_cast<std::size_t>(logits.rows()) * top_k);
  share_.resize(choice_.size());
  pool.for_ranges(logits.rows(), kGrainRows, [&](std::int64_t begin, std::int64_t end) {
    std::vector<double> scores(count);
    std::vector<double> keys(count);
    for (std::int64_t r = begin; r < end; ++r) {
      const std::size_t at = static_cast<std::size_t>(r) * top_k;
      const std::span<std::int32_t> chosen(choice_.data() + at, top_k);
      score(experts.sigmoid, logits.row(r), scores);
      keys = scores;
      for (std::size_t e = 0; e < bias.size(); ++e) keys[e] += static_cast<double>(bias[e]);
      pick(keys, chosen);
      share(experts, scores, chosen, {share_.data() + at, top_k});
    }
  });
  first_.assign(count + 1, 0);
  for (const std::int32_t e : choice_) ++first_[static_cast<std::size_t>(e) + 1];
  for (std::size_t e = 0; e < count; ++e) first_[e + 1] += first_[e];
  rows_.resize(choice_.size());
  weights_.resize(choice_.size());
  std::vector<std::size_t> next(first_.begin(), first_.end() - 1);
  for (std::size_t i = 0; i < choice_.size(); ++i) {
    const std::size_t to = next[static_cast<std::size_t>(choice_[i])]++;
    rows_[to] = static_cast<std::int32_t>(i / top_k);
    weights_[to] = share_[i];
  }
}

std::span<const std::int32_t> Routing::rows(std::int64_t expert) const {
  const auto e = static_cast<std::size_t>(expert);
  return std::span(rows_).subspan(first_[e], first_[e + 1] - first_[e]);
}

std::span<const float> Routing::weights(std::int64_t expert) const {
  const auto e = static_cast<std::size_t>(expert);
  return std::span(weights_).subspan(first_[e], first_[e + 1] - first_[e]);
}

}  // namespace cortiq::model
