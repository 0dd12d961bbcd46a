#include <gtest/gtest.h>

#include <filesystem>

#include "cache_files.hpp"
#include "cortiq/calib/hessian_cache.hpp"
#include "cortiq/support/error.hpp"
#include "data_dirs.hpp"

namespace cortiq::calib {
namespace {

namespace fs = std::filesystem;
using test::random_hessian;
using test::write_bytes;
using test::write_cache;

CacheIdentity sample() {
  CacheIdentity identity;
  identity.model_hash = "aabb";
  identity.tokenizer_hash = "ccdd";
  identity.tokens = 4096;
  identity.window = 512;
  identity.bos = true;
  SourceReport source;
  source.file = "na\xC3\xAFve.txt";
  source.sha256 = "eeff";
  source.share = 0.25;
  source.tokens_used = 4096;
  source.tokens_wanted = 5000;
  identity.sources.push_back(source);
  return identity;
}

TEST(CacheIdentity, comes_back_from_the_sidecar) {
  const fs::path path = test::scratch_dir("identity") / "a.hess";
  write_cache(path, {{{"a"}, random_hessian(3, 1)}}, sample());
  const auto read = HessianCache::open(path).identity();
  ASSERT_TRUE(read.has_value());
  EXPECT_TRUE(identity_differences(sample(), *read).empty());
  EXPECT_EQ(read->sources[0].file, sample().sources[0].file);
  EXPECT_EQ(read->sources[0].share, 0.25);
  EXPECT_EQ(read->sources[0].tokens_wanted, 5000);
}

TEST(CacheIdentity, every_field_makes_one_readable_difference) {
  const auto difference = [](auto change) {
    CacheIdentity other = sample();
    change(other);
    const auto found = identity_differences(sample(), other);
    EXPECT_EQ(found.size(), 1U);
    return found.empty() ? std::string() : found[0];
  };
  EXPECT_EQ(difference([](CacheIdentity& i) { i.window = 2048; }),
            "window: 512 here, 2048 in the cache");
  EXPECT_EQ(difference([](CacheIdentity& i) { i.tokens = 1; }),
            "tokens: 4096 here, 1 in the cache");
  EXPECT_EQ(difference([](CacheIdentity& i) { i.bos = false; }), "bos: on here, off in the cache");
  EXPECT_EQ(difference([](CacheIdentity& i) { i.model_hash = "x"; }),
            "model: aabb here, x in the cache");
  EXPECT_EQ(difference([](CacheIdentity& i) { i.tokenizer_hash.clear(); }),
            "tokenizer: ccdd here, unknown in the cache");
  EXPECT_EQ(difference([](CacheIdentity& i) { i.sources.clear(); }),
            "sources: 1 here, 0 in the cache");
  EXPECT_NE(difference([](CacheIdentity& i) { i.sources[0].sha256 = "x"; }).find("source 1: "),
            std::string::npos);
  EXPECT_NE(difference([](CacheIdentity& i) { i.sources[0].tokens_used = 9; }).find("9 tokens"),
            std::string::npos);
}

TEST(CacheIdentity, name_and_share_of_a_source_do_not_matter) {
  CacheIdentity other = sample();
  other.sources[0].file = "elsewhere.txt";
  other.sources[0].share = 4;
  EXPECT_TRUE(identity_differences(sample(), other).empty());
}

TEST(CacheIdentity, the_layers_of_a_chunk_come_back_and_are_no_difference) {
  const fs::path path = test::scratch_dir("identity") / "a.hess";
  CacheIdentity chunk = sample();
  chunk.layers = {{2, 3}, 6};
  write_cache(path, {{{"a"}, random_hessian(3, 1)}}, chunk);
  const auto read = HessianCache::open(path).identity();
  EXPECT_EQ(read->layers.numbers, (std::vector<std::int64_t>{2, 3}));
  EXPECT_EQ(read->layers.count, 6);
  EXPECT_TRUE(identity_differences(sample(), *read).empty());
  std::string text = test::read_bytes(sidecar_path(path));
  text.replace(text.find("\"of\": 6"), 7, "\"of\": 3");
  write_bytes(sidecar_path(path), text);
  EXPECT_THROW((void)HessianCache::open(path).identity(), Error) << "layer 3 of 3";
}

TEST(CacheIdentity, cache_without_sidecar_has_none) {
  const fs::path path = test::scratch_dir("identity") / "a.hess";
  write_cache(path, {{{"a"}, random_hessian(3, 1)}}, sample());
  fs::remove(sidecar_path(path));
  EXPECT_FALSE(HessianCache::open(path).identity().has_value());
}

TEST(CacheIdentity, footer_is_read_where_there_is_no_sidecar) {
  const fs::path folder = test::scratch_dir("identity");
  write_cache(folder / "a.hess", {{{"a"}, random_hessian(3, 1)}}, sample());
  const std::string json = test::read_bytes(sidecar_path(folder / "a.hess"));
  test::CacheBytes file;
  file.bytes = test::read_bytes(folder / "a.hess") + json;
  file.put(static_cast<std::uint64_t>(json.size())).bytes += "CMFHMETA";
  write_bytes(folder / "b.hess", file.bytes);
  const auto read = HessianCache::open(folder / "b.hess").identity();
  ASSERT_TRUE(read.has_value());
  EXPECT_TRUE(identity_differences(sample(), *read).empty());
}

TEST(CacheIdentity, sidecar_of_another_file_and_damaged_ones_are_refused) {
  const fs::path folder = test::scratch_dir("identity");
  write_cache(folder / "a.hess", {{{"a"}, random_hessian(3, 1)}}, sample());
  write_cache(folder / "b.hess", {{{"a"}, random_hessian(4, 1)}}, sample());
  const std::string good = test::read_bytes(sidecar_path(folder / "a.hess"));
  fs::copy_file(sidecar_path(folder / "b.hess"), sidecar_path(folder / "a.hess"),
                fs::copy_options::overwrite_existing);
  EXPECT_THROW((void)HessianCache::open(folder / "a.hess").identity(), Error);
  for (const std::string& bad :
       {std::string("{}"), std::string("[1]"), std::string("oops"), good.substr(0, good.size() / 2),
        std::string("{\"magic\":\"other\"}"),
        std::string("{\"magic\":\"CMFHESS1\",\"tokens\":\"x\"}")}) {
    write_bytes(sidecar_path(folder / "a.hess"), bad);
    EXPECT_THROW((void)HessianCache::open(folder / "a.hess").identity(), Error) << bad;
  }
}

TEST(CacheIdentity, new_cache_replaces_the_sidecar) {
  const fs::path path = test::scratch_dir("identity") / "a.hess";
  write_cache(path, {{{"a"}, random_hessian(3, 1)}}, sample());
  CacheIdentity other = sample();
  other.window = 99;
  write_cache(path, {{{"a"}, random_hessian(3, 1)}}, other);
  EXPECT_EQ(HessianCache::open(path).identity()->window, 99);
}

}  // namespace
}  // namespace cortiq::calib
