#include "cortiq/calib/hessian_merge.hpp"

#include <gtest/gtest.h>

#include "cache_files.hpp"
#include "cortiq/support/error.hpp"
#include "data_dirs.hpp"

namespace cortiq::calib {
namespace {

namespace fs = std::filesystem;
using test::CacheItem;
using test::random_hessian;

CacheIdentity text_identity(const std::string& text) {
  CacheIdentity identity;
  identity.model_hash = "model";
  identity.window = 64;
  identity.tokens = 100;
  SourceReport source;
  source.file = source.sha256 = text;
  source.tokens_used = 100;
  identity.sources = {source};
  return identity;
}

class HessianMerge : public testing::Test {
 protected:
  void SetUp() override { folder_ = test::scratch_dir("merge"); }
  fs::path write(const std::string& name, const std::vector<CacheItem>& items) {
    test::write_cache(folder_ / name, items, text_identity(name));
    return folder_ / name;
  }
  MergeResult merge(const std::vector<fs::path>& inputs, bool force = false) {
    return merge_caches(inputs, output(), {force}, [](std::int64_t, std::int64_t) {});
  }
  fs::path output() const { return folder_ / "out.hess"; }
  void expect_error(const std::vector<fs::path>& inputs, ErrorKind kind, std::string_view part,
                    bool force = false) {
    try {
      merge(inputs, force);
      ADD_FAILURE() << "was merged";
    } catch (const Error& error) {
      EXPECT_EQ(error.kind(), kind) << error.what();
      EXPECT_NE(std::string(error.what()).find(part), std::string::npos) << error.what();
    }
    EXPECT_FALSE(fs::exists(output()));
  }
  fs::path folder_;
};

/// Every number of `sum` is that of a + b, exactly.
void expect_sum(const Hessian& sum, const Hessian& a, const Hessian& b) {
  EXPECT_EQ(sum.count, a.count + b.count);
  for (std::int64_t i = 0; i < sum.n(); ++i) {
    const auto k = static_cast<std::size_t>(i);
    EXPECT_EQ(sum.sum_squares[k], a.sum_squares[k] + b.sum_squares[k]);
    for (std::int64_t j = i; j < sum.n(); ++j)
      ASSERT_EQ(sum.view()(i, j), a.view()(i, j) + b.view()(i, j));
  }
}

TEST_F(HessianMerge, adds_matrices_counts_and_sums_of_squares_by_name) {
  const std::vector<CacheItem> a{{{"q", "k"}, random_hessian(17, 1)}, {{"o"}, random_hessian(8, 2)}};
  const std::vector<CacheItem> b{{{"o"}, random_hessian(8, 3)}, {{"k", "q"}, random_hessian(17, 4)}};
  const MergeResult result = merge({write("a", a), write("b", b)});
  EXPECT_EQ(result.entries, 2);
  const HessianCache cache = HessianCache::open(output());
  ASSERT_EQ(cache.entries().size(), 2U);
  EXPECT_EQ(cache.entries()[0].names, (std::vector<std::string>{"q", "k"}));
  expect_sum(*cache.read(0), *a[0].hessian, *b[1].hessian);
  expect_sum(*cache.read(1), *a[1].hessian, *b[0].hessian);
  const auto identity = cache.identity();
  ASSERT_TRUE(identity.has_value());
  EXPECT_EQ(identity->tokens, 200);
  EXPECT_EQ(identity->sources.size(), 2U);
}

TEST_F(HessianMerge, names_that_one_input_tells_apart_stay_apart) {
  // A writer that drops equal Hessians may have put two inputs of the model into one entry.
  const std::vector<CacheItem> a{{{"x", "y", "z"}, random_hessian(6, 1)}};
  const std::vector<CacheItem> b{{{"x", "z"}, random_hessian(6, 2)}, {{"y"}, random_hessian(6, 3)}};
  merge({write("a", a), write("b", b)});
  const HessianCache cache = HessianCache::open(output());
  ASSERT_EQ(cache.entries().size(), 2U);
  EXPECT_EQ(cache.entries()[0].names, (std::vector<std::string>{"x", "z"}));
  EXPECT_EQ(cache.entries()[1].names, std::vector<std::string>{"y"});
  expect_sum(*cache.read(0), *a[0].hessian, *b[0].hessian);
  expect_sum(*cache.read(1), *a[0].hessian, *b[1].hessian);
}

TEST_F(HessianMerge, an_expert_that_an_input_lacks_was_not_reached_there) {
  const std::string expert = "model.layers.0.mlp.experts.3.up_proj.weight";
  const std::vector<CacheItem> a{{{"q"}, random_hessian(6, 1)}};
  const std::vector<CacheItem> b{{{"q"}, random_hessian(6, 2)}, {{expert}, random_hessian(5, 3)}};
  merge({write("a", a), write("b", b)});
  const HessianCache cache = HessianCache::open(output());
  const std::size_t entry = cache.find(expert, 5).value();
  EXPECT_EQ(cache.read(entry)->count, b[1].hessian->count);
  EXPECT_EQ(cache.read(entry)->view()(1, 3), b[1].hessian->view()(1, 3));
}

TEST_F(HessianMerge, another_tensor_that_an_input_lacks_is_refused_unless_forced) {
  const fs::path a = write("a", {{{"q"}, random_hessian(6, 1)}});
  const fs::path b = write("b", {{{"q"}, random_hessian(6, 2)}, {{"o"}, random_hessian(5, 3)}});
  expect_error({a, b}, ErrorKind::kRefused, "a: lacks 1 tensors");
  const MergeResult forced = merge({a, b}, true);
  EXPECT_EQ(forced.warnings.size(), 1U);
  EXPECT_FALSE(HessianCache::open(output()).identity().has_value());
}

TEST_F(HessianMerge, a_foreign_identity_is_refused_and_a_forced_merge_has_none) {
  const fs::path a = write("a", {{{"q"}, random_hessian(6, 1)}});
  test::write_cache(folder_ / "same", {{{"q"}, random_hessian(6, 2)}}, text_identity("a"));
  expect_error({a, folder_ / "same"}, ErrorKind::kRefused, "twice");
  const MergeResult forced = merge({a, folder_ / "same"}, true);
  ASSERT_EQ(forced.warnings.size(), 1U);
  EXPECT_FALSE(fs::exists(sidecar_path(output())));
}

TEST_F(HessianMerge, what_cannot_be_added_is_an_error_even_if_forced) {
  const fs::path a = write("a", {{{"q"}, random_hessian(6, 1)}});
  const fs::path narrow = write("b", {{{"q"}, random_hessian(5, 2)}});
  expect_error({a, narrow}, ErrorKind::kInput, "5 channels", true);
  test::CacheBytes diagonal;
  diagonal.header(1).entry("q", 6, 9, 0);
  for (int i = 0; i < 6; ++i) diagonal.put(1.0);
  test::write_bytes(folder_ / "diagonal", diagonal.bytes);
  expect_error({a, folder_ / "diagonal"}, ErrorKind::kInput, "sums of squares only", true);
  expect_error({a, a}, ErrorKind::kUsage, "twice", true);
  fs::create_symlink(a, folder_ / "link");
  expect_error({a, folder_ / "link"}, ErrorKind::kUsage, "twice", true);
  expect_error({a}, ErrorKind::kUsage, "at least two");
}

}  // namespace
}  // namespace cortiq::calib
