// Chunks by layers in a merge: what makes a whole, what is refused.
#include <gtest/gtest.h>

#include <utility>

#include "cache_files.hpp"
#include "cortiq/calib/hessian_merge.hpp"
#include "cortiq/calib/part.hpp"
#include "cortiq/support/error.hpp"
#include "data_dirs.hpp"

namespace cortiq::calib {
namespace {

namespace fs = std::filesystem;
using test::CacheItem;
using test::random_hessian;
using Numbers = std::vector<std::int64_t>;

constexpr std::int64_t kLayers = 3;

/// A run over 90 tokens of this text, or a part of it.
CacheIdentity run_of(const std::string& text, Part part = {1, 1}) {
  CacheIdentity identity;
  identity.model_hash = "model";
  identity.window = 30;
  identity.tokens = 90 / part.count;
  identity.part_count = part.count;
  if (part.count > 1) identity.parts = {part.number};
  SourceReport source;
  source.file = source.sha256 = text;
  source.tokens_used = 90;
  identity.sources = {source};
  return identity;
}

/// Two entries of a layer; the numbers depend on the seed.
std::vector<CacheItem> items_of(Numbers layers, unsigned seed) {
  std::vector<CacheItem> items;
  for (const std::int64_t layer : layers) {
    const std::string prefix = "model.layers." + std::to_string(layer);
    const auto s = seed * 10 + static_cast<unsigned>(layer);
    items.push_back({{prefix + ".q", prefix + ".k"}, random_hessian(7, s)});
    items.push_back({{prefix + ".o"}, random_hessian(4, s + 1000)});
  }
  return items;
}

class MergeInputs : public testing::Test {
 protected:
  void SetUp() override { folder_ = test::scratch_dir("chunks"); }
  fs::path path(const std::string& name) const { return folder_ / name; }
  /// @param layers  none: a whole cache
  fs::path write(const std::string& name, const Numbers& layers, CacheIdentity identity,
                 unsigned seed = 1) {
    if (!layers.empty()) identity.layers = {layers, kLayers};
    test::write_cache(path(name), items_of(layers.empty() ? Numbers{0, 1, 2} : layers, seed),
                      identity);
    return path(name);
  }
  MergeResult merge(const std::vector<fs::path>& inputs, bool force = false) {
    return merge_caches(inputs, path("out"), {force}, [](std::int64_t, std::int64_t) {});
  }
  void expect_error(const std::vector<fs::path>& inputs, ErrorKind kind,
                    std::initializer_list<std::string_view> words) {
    try {
      merge(inputs);
      ADD_FAILURE() << "was merged";
    } catch (const Error& error) {
      EXPECT_EQ(error.kind(), kind) << error.what();
      for (const std::string_view word : words)
        EXPECT_NE(std::string(error.what()).find(word), std::string::npos) << error.what();
    }
    EXPECT_FALSE(fs::exists(path("out")));
  }
  /// Cache and identity file of the result are those of this cache.
  void expect_output(const fs::path& want) const {
    EXPECT_TRUE(test::read_bytes(path("out")) == test::read_bytes(want));
    EXPECT_EQ(test::read_bytes(sidecar_path(path("out"))), test::read_bytes(sidecar_path(want)));
  }
  fs::path folder_;
};

TEST_F(MergeInputs, chunks_in_any_order_give_the_bytes_of_the_whole_cache) {
  const fs::path whole = write("whole", {}, run_of("a"));
  const fs::path first = write("first", {0}, run_of("a"));
  const fs::path second = write("second", {1}, run_of("a"));
  const fs::path third = write("third", {2}, run_of("a"));
  for (const auto& order : {std::vector{first, second, third}, std::vector{third, first, second}}) {
    const MergeResult result = merge(order);
    EXPECT_TRUE(result.warnings.empty());
    EXPECT_EQ(result.caches, 3U);
    EXPECT_EQ(result.entries, 6);
    expect_output(whole);
  }
}

TEST_F(MergeInputs, a_path_that_is_no_file_stands_for_its_chunks) {
  const fs::path whole = write("whole", {}, run_of("a"));
  write("c.hess.L0-1", {0, 1}, run_of("a"));
  write("c.hess.L2-3", {2}, run_of("a"));
  test::write_bytes(path("c.hess.L2-x"), "no chunk");
  test::write_bytes(path("c.hess.L4"), "no chunk");
  test::write_bytes(path("cc.hess.L0-1"), "another base");
  EXPECT_EQ(chunk_files(path("c.hess")), (std::vector{path("c.hess.L0-1"), path("c.hess.L2-3")}));
  merge({path("c.hess")});
  expect_output(whole);
  // Many chunks are taken by number, not by spelling; a file of the name itself comes first.
  test::write_bytes(path("d.L10-11"), "");
  test::write_bytes(path("d.L2-3"), "");
  EXPECT_EQ(chunk_files(path("d")), (std::vector{path("d.L2-3"), path("d.L10-11")}));
  EXPECT_EQ(chunk_files(whole), std::vector{whole});
  EXPECT_EQ(chunk_files(path("none")), std::vector{path("none")});
}

TEST_F(MergeInputs, equal_tensors_of_parts_in_chunks_are_added) {
  const fs::path one = write("one", {}, run_of("a", {1, 2}), 1);
  const fs::path two = write("two", {}, run_of("a", {2, 2}), 2);
  merge({one, two});
  fs::rename(path("out"), path("sum"));
  fs::rename(sidecar_path(path("out")), sidecar_path(path("sum")));
  write("p.L0-0", {0}, run_of("a", {1, 2}), 1);
  write("p.L1-2", {1, 2}, run_of("a", {1, 2}), 1);
  write("r.L0-1", {0, 1}, run_of("a", {2, 2}), 2);
  write("r.L2-3", {2}, run_of("a", {2, 2}), 2);
  merge({path("p"), path("r")});
  expect_output(path("sum"));
  merge({path("p.L1-2"), path("r.L2-3"), path("r.L0-1"), path("p.L0-0")});
  expect_output(path("sum"));
  // Merging by chunks first comes to the same.
  merge({path("p.L0-0"), path("p.L1-2")});
  fs::rename(path("out"), path("p"));
  fs::rename(sidecar_path(path("out")), sidecar_path(path("p")));
  merge({path("p"), path("r")});
  expect_output(path("sum"));
}

TEST_F(MergeInputs, a_layer_that_no_chunk_holds_is_named_and_can_join_later) {
  const fs::path whole = write("whole", {}, run_of("a"));
  const fs::path first = write("first", {0}, run_of("a"));
  const fs::path last = write("last", {2}, run_of("a"));
  const MergeResult result = merge({first, last});
  ASSERT_EQ(result.warnings.size(), 1U);
  EXPECT_NE(result.warnings[0].find("no chunk holds layers 1 of the model's 3"), std::string::npos)
      << result.warnings[0];
  EXPECT_EQ(HessianCache::open(path("out")).identity()->layers.numbers, (Numbers{0, 2}));
  fs::rename(path("out"), path("most"));
  fs::rename(sidecar_path(path("out")), sidecar_path(path("most")));
  const MergeResult rest = merge({path("most"), write("middle", {1}, run_of("a"))});
  EXPECT_TRUE(rest.warnings.empty());
  EXPECT_TRUE(HessianCache::open(path("out")).identity()->layers.whole());
  EXPECT_EQ(HessianCache::open(path("out")).entries().size(), 6U);
}

TEST_F(MergeInputs, what_would_count_twice_is_refused) {
  const fs::path whole = write("whole", {}, run_of("a"));
  const fs::path first = write("first", {0}, run_of("a"));
  const fs::path rest = write("rest", {1, 2}, run_of("a"));
  const fs::path again = write("again", {1}, run_of("a"));
  const auto twice = {std::string_view("count twice")};
  expect_error({first, rest, again}, ErrorKind::kRefused,
               {"rest", "again", "both hold model.layers.1.q", "count twice"});
  expect_error({first, whole}, ErrorKind::kRefused, twice);
  expect_error({first, rest, first}, ErrorKind::kUsage, {"first", "named twice"});
  const MergeResult forced = merge({first, rest, again}, true);
  ASSERT_FALSE(forced.warnings.empty());
  EXPECT_FALSE(forced.identity.has_value());
}

TEST_F(MergeInputs, chunks_of_different_runs_are_refused) {
  const fs::path first = write("first", {0}, run_of("a"));
  expect_error({first, write("text", {1, 2}, run_of("b"))}, ErrorKind::kRefused,
               {"first", "text", "different runs", "source 1: a"});
  CacheIdentity longer = run_of("a");
  longer.tokens = longer.sources[0].tokens_used = 120;
  expect_error({first, write("tokens", {1, 2}, longer)}, ErrorKind::kRefused,
               {"tokens: 90 here, 120 in the cache"});
  CacheIdentity window = run_of("a");
  window.window = 45;
  expect_error({first, write("window", {1, 2}, window)}, ErrorKind::kRefused,
               {"window: 30 here, 45 in the cache"});
  expect_error({first, write("part", {1, 2}, run_of("a", {1, 2}))}, ErrorKind::kRefused,
               {"same text"});
  // One part lacks a chunk that another has.
  write("p.L0-1", {0, 1}, run_of("a", {1, 2}));
  write("p.L2-3", {2}, run_of("a", {1, 2}));
  write("r.L0-1", {0, 1}, run_of("a", {2, 2}));
  expect_error({path("p"), path("r")}, ErrorKind::kRefused, {"r.L0-1: lacks 3 tensors"});
}

TEST_F(MergeInputs, chunks_without_identity_unite_only_by_their_base_and_by_force) {
  const fs::path whole = write("whole", {}, run_of("a"));
  for (const auto& [name, layers] : {std::pair("u.L0-1", Numbers{0, 1}), {"u.L2-3", {2}}}) {
    write(name, layers, run_of("a"));
    fs::remove(sidecar_path(path(name)));
  }
  expect_error({path("u")}, ErrorKind::kRefused, {"u.L0-1: has no identity file"});
  const MergeResult forced = merge({path("u")}, true);
  EXPECT_EQ(forced.warnings.size(), 1U) << "that the identity is unknown, nothing else";
  EXPECT_TRUE(test::read_bytes(path("out")) == test::read_bytes(whole));
  EXPECT_FALSE(fs::exists(sidecar_path(path("out"))));
}

}  // namespace
}  // namespace cortiq::calib
