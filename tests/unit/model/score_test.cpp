// Windows, perplexity and divergence against sums written out from the f64 reference's logits.
#include "cortiq/model/score.hpp"

#include <gtest/gtest.h>

#include <algorithm>
#include <cmath>

#include "reference_model.hpp"
#include "tiny_model.hpp"

namespace cortiq::model::test {
namespace {

std::vector<TokenId> counting_ids(std::int64_t count, std::int64_t vocab) {
  std::vector<TokenId> ids;
  for (std::int64_t i = 0; i < count; ++i) ids.push_back(static_cast<TokenId>(i * 31 % vocab));
  return ids;
}

/// log p of every token of the vocabulary at one position.
Values log_probabilities(const ReferenceRun& run, std::size_t position, std::size_t vocab) {
  const auto begin = run.logits.begin() + static_cast<std::ptrdiff_t>(position * vocab);
  Values x(begin, begin + static_cast<std::ptrdiff_t>(vocab));
  const double top = *std::max_element(x.begin(), x.end());
  double sum = 0;
  for (const double v : x) sum += std::exp(v - top);
  for (double& v : x) v -= top + std::log(sum);
  return x;
}

TEST(ScoredWindows, ZooRuleDropsTailAndScoresAllButTheFirst) {
  const ScoredWindows scored = scored_windows(counting_ids(21, 97), 8, 8, -1);
  ASSERT_EQ(scored.windows.count(), 2);
  EXPECT_EQ(scored.windows.window(1)[0], counting_ids(21, 97)[8]);
  EXPECT_EQ(scored.first_scored, (std::vector<std::int64_t>{1, 1}));
  EXPECT_EQ(scored.scored_tokens(), 14);
}

TEST(ScoredWindows, BosInFrontMakesAllTokensScored) {
  const ScoredWindows scored = scored_windows(counting_ids(16, 97), 8, 8, 5);
  ASSERT_EQ(scored.windows.count(), 2);
  EXPECT_EQ(scored.windows.length(1), 9);
  EXPECT_EQ(scored.windows.window(1)[0], 5);
  EXPECT_EQ(scored.scored_tokens(), 16);
}

TEST(ScoredWindows, OverlapScoresEachTokenOnce) {
  const ScoredWindows scored = scored_windows(counting_ids(20, 97), 8, 4, -1);
  ASSERT_EQ(scored.windows.count(), 4);
  EXPECT_EQ(scored.first_scored, (std::vector<std::int64_t>{1, 4, 4, 4}));
  EXPECT_EQ(scored.scored_tokens(), 19);
}

TEST(ScoredWindows, StrideAboveWindowIsRefused) {
  EXPECT_THROW(static_cast<void>(scored_windows(counting_ids(20, 97), 8, 9, -1)), Error);
  EXPECT_THROW(static_cast<void>(scored_windows(counting_ids(20, 97), 1, 1, -1)), Error);
}

TEST(Perplexity, MatchesReferenceTokenByToken) {
  MemorySource source = make_tiny({.family = "gemma2"});
  source.arch["final_logit_softcapping"] = 6.0;
  source.finish();
  const ScoredWindows scored = scored_windows(counting_ids(90, 97), 30, 15, -1);
  Values want;
  for (std::int64_t w = 0; w < scored.windows.count(); ++w) {
    const auto window = scored.windows.window(w);
    const ReferenceRun run = run_reference(source, {window.begin(), window.end()});
    for (auto t = static_cast<std::size_t>(scored.first_scored[static_cast<std::size_t>(w)]);
         t < window.size(); ++t) {
      want.push_back(-log_probabilities(run, t - 1, 97)[static_cast<std::size_t>(window[t])]);
    }
  }
  for (const SimdLevel level : {SimdLevel::kPortable, SimdLevel::kAvx2, SimdLevel::kAvx512}) {
    if (level > detect_simd()) continue;
    Pool pool(2, level);
    const Forward forward(source, pool);
    std::int64_t last = 0;
    const Perplexity got = perplexity(forward, scored, [&](std::int64_t done, std::int64_t total) {
      EXPECT_GE(done, last);
      EXPECT_EQ(total, scored.windows.tokens());
      last = done;
    });
    EXPECT_EQ(last, scored.windows.tokens());
    ASSERT_EQ(got.nll.size(), want.size());
    double sum = 0;
    for (std::size_t i = 0; i < want.size(); ++i) {
      EXPECT_NEAR(got.nll[i], want[i], 1e-4);
      sum += want[i];
    }
    EXPECT_NEAR(got.mean_nll, sum / static_cast<double>(want.size()), 2e-5);
    EXPECT_NEAR(got.perplexity, std::exp(got.mean_nll), 1e-9 * got.perplexity);
  }
}

TEST(Perplexity, BitsDoNotDependOnThreads) {
  MemorySource source = make_tiny({});
  source.finish();
  const ScoredWindows scored = scored_windows(counting_ids(400, 97), 40, 40, -1);
  Pool one(1);
  const Perplexity want = perplexity(Forward(source, one), scored);
  Pool seven(7);
  const Perplexity got = perplexity(Forward(source, seven, {64, std::nullopt}), scored);
  EXPECT_EQ(want.nll, got.nll);
  EXPECT_EQ(want.mean_nll, got.mean_nll);
}

TEST(Perplexity, TextShorterThanAWindowIsAnError) {
  MemorySource source = make_tiny({});
  source.finish();
  Pool pool(1);
  EXPECT_THROW(static_cast<void>(perplexity(Forward(source, pool),
                                            scored_windows(counting_ids(5, 97), 8, 8, -1))),
               Error);
}

TEST(Divergence, OfAModelFromItselfIsZero) {
  MemorySource source = make_tiny({});
  source.finish();
  Pool pool(2);
  const Forward forward(source, pool);
  const Divergence got =
      divergence(forward, forward, scored_windows(counting_ids(80, 97), 40, 40, -1));
  EXPECT_NEAR(got.mean_kl, 0.0, 1e-12);
  EXPECT_EQ(got.top1_agreement, 1.0);
  EXPECT_EQ(got.base_perplexity, got.test_perplexity);
  EXPECT_EQ(got.tokens, 78);
}

TEST(Divergence, MatchesSumsOverTheReferenceLogits) {
  MemorySource base = make_tiny({});
  base.finish();
  MemorySource test = make_tiny({});
  for (float& value : test.values("model.layers.1.mlp.down_proj.weight")) value *= 1.1F;
  test.finish();
  const ScoredWindows scored = scored_windows(counting_ids(60, 97), 30, 30, -1);
  Values want;
  std::size_t same = 0;
  for (std::int64_t w = 0; w < scored.windows.count(); ++w) {
    const auto window = scored.windows.window(w);
    const ReferenceRun left = run_reference(base, {window.begin(), window.end()});
    const ReferenceRun right = run_reference(test, {window.begin(), window.end()});
    for (std::size_t t = 1; t < window.size(); ++t) {
      const Values p = log_probabilities(left, t - 1, 97);
      const Values q = log_probabilities(right, t - 1, 97);
      double kl = 0;
      for (std::size_t v = 0; v < p.size(); ++v) kl += std::exp(p[v]) * (p[v] - q[v]);
      want.push_back(kl);
      same += std::max_element(p.begin(), p.end()) - p.begin() ==
              std::max_element(q.begin(), q.end()) - q.begin();
    }
  }
  double sum = 0;
  for (const double kl : want) sum += kl;
  const double mean = sum / static_cast<double>(want.size());
  Pool pool(2);
  const Divergence got = divergence(Forward(base, pool), Forward(test, pool), scored);
  EXPECT_GT(mean, 1e-5);
  EXPECT_NEAR(got.mean_kl, mean, 1e-3 * mean + 1e-7);
  EXPECT_NEAR(got.top1_agreement, static_cast<double>(same) / static_cast<double>(want.size()),
              1e-12);
  std::sort(want.begin(), want.end());
  EXPECT_NEAR(got.p99_kl,
              want[static_cast<std::size_t>(0.99 * static_cast<double>(want.size() - 1) + 0.5)],
              1e-2 * got.p99_kl);
}

TEST(Divergence, DifferentVocabulariesAreRefused) {
  MemorySource base = make_tiny({});
  base.finish();
  MemorySource test = make_tiny({.vocab = 50});
  test.finish();
  Pool pool(1);
  EXPECT_THROW(static_cast<void>(divergence(Forward(base, pool), Forward(test, pool),
                                            scored_windows(counting_ids(60, 50), 30, 30, -1))),
               Error);
}

}  // namespace
}  // namespace cortiq::model::test
