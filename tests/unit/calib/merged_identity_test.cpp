#include <gtest/gtest.h>

#include "cortiq/calib/hessian_merge.hpp"

namespace cortiq::calib {
namespace {

CacheIdentity run_of(const std::string& text, std::int64_t tokens) {
  CacheIdentity identity;
  identity.model_hash = "model";
  identity.tokenizer_hash = "tokenizer";
  SourceReport source;
  source.file = text + ".txt";
  source.sha256 = text;
  source.tokens_used = tokens;
  identity.sources = {source};
  identity.tokens = tokens;
  identity.window = 128;
  return identity;
}

CacheIdentity part_of(const std::string& text, std::int64_t tokens,
                      std::vector<std::int64_t> parts, std::int64_t count) {
  CacheIdentity identity = run_of(text, tokens);
  identity.tokens = tokens * static_cast<std::int64_t>(parts.size()) / count;
  identity.parts = std::move(parts);
  identity.part_count = count;
  return identity;
}

MergedIdentity merge(const std::vector<std::optional<CacheIdentity>>& identities) {
  std::vector<std::string> names;
  for (std::size_t i = 0; i < identities.size(); ++i)
    names.push_back("cache" + std::to_string(i + 1));
  return merge_identities(identities, names);
}

void expect_obstacle(const std::vector<std::optional<CacheIdentity>>& identities,
                     std::initializer_list<std::string_view> words) {
  const MergedIdentity merged = merge(identities);
  EXPECT_FALSE(merged.identity.has_value());
  for (const std::string_view word : words)
    EXPECT_NE(merged.obstacle.find(word), std::string::npos) << merged.obstacle;
}

TEST(MergedIdentity, all_parts_of_a_run_are_the_run) {
  const auto merged =
      merge({part_of("a", 900, {3}, 3), part_of("a", 900, {1}, 3), part_of("a", 900, {2}, 3)});
  ASSERT_TRUE(merged.identity.has_value()) << merged.obstacle;
  EXPECT_TRUE(identity_differences(run_of("a", 900), *merged.identity).empty());
}

TEST(MergedIdentity, some_parts_stay_parts_and_join_later) {
  const auto some = merge({part_of("a", 900, {3}, 3), part_of("a", 900, {1}, 3)});
  ASSERT_TRUE(some.identity.has_value()) << some.obstacle;
  EXPECT_EQ(some.identity->parts, (std::vector<std::int64_t>{1, 3}));
  EXPECT_EQ(some.identity->part_count, 3);
  EXPECT_EQ(some.identity->tokens, 600);
  const auto differences = identity_differences(run_of("a", 900), *some.identity);
  ASSERT_EQ(differences.size(), 2U);
  EXPECT_EQ(differences[1], "parts: all here, 1, 3 of 3 in the cache");
  const auto all = merge({some.identity, part_of("a", 900, {2}, 3)});
  EXPECT_TRUE(identity_differences(run_of("a", 900), all.identity.value()).empty());
}

TEST(MergedIdentity, runs_of_different_texts_become_one_run_of_both) {
  CacheIdentity both = run_of("a", 900);
  both.sources.push_back(run_of("b", 100).sources[0]);
  both.tokens = 1000;
  const auto merged = merge({run_of("a", 900), run_of("b", 100)});
  EXPECT_TRUE(identity_differences(both, merged.identity.value()).empty());
  const auto halves = merge({part_of("a", 900, {2}, 2), run_of("b", 100), part_of("a", 900, {1}, 2)});
  EXPECT_TRUE(identity_differences(both, halves.identity.value()).empty());
}

TEST(MergedIdentity, what_would_count_twice_or_lacks_a_part_is_an_obstacle) {
  expect_obstacle({run_of("a", 900), run_of("a", 900)}, {"cache1", "cache2", "twice"});
  expect_obstacle({run_of("a", 900), part_of("a", 900, {1}, 2)}, {"twice"});
  expect_obstacle({part_of("a", 900, {1}, 2), part_of("a", 900, {1}, 3)}, {"twice"});
  expect_obstacle({part_of("a", 900, {1, 2}, 3), part_of("a", 900, {2}, 3)},
                  {"part 2 of 3", "cache1", "cache2"});
  expect_obstacle({run_of("b", 100), part_of("a", 900, {1}, 2)}, {"cache2", "1 of 2 parts"});
}

TEST(MergedIdentity, unknown_and_differing_runs_are_an_obstacle) {
  expect_obstacle({run_of("a", 900), std::nullopt}, {"cache2", "no identity"});
  CacheIdentity other = run_of("b", 900);
  other.model_hash = "another";
  expect_obstacle({run_of("a", 900), other}, {"cache1", "cache2", "model"});
  other = run_of("b", 900);
  other.tokenizer_hash = "another";
  expect_obstacle({run_of("a", 900), other}, {"tokenizer"});
  other = run_of("b", 900);
  other.window = 64;
  expect_obstacle({run_of("a", 900), other}, {"window: 128 here, 64 in the cache"});
  other = run_of("b", 900);
  other.bos = true;
  expect_obstacle({run_of("a", 900), other}, {"bos"});
}

}  // namespace
}  // namespace cortiq::calib
