// hessians capture --part, merge and inspect on the bundled model.
#include <cmath>
#include <cstring>
#include <fstream>

#include "cortiq/calib/hessian_cache.hpp"
#include "e2e.hpp"

namespace cortiq::test {
namespace fs = std::filesystem;
using nlohmann::json;

/// Parts and single run may differ by rounding of f32 block sums only (hessian.hpp).
constexpr double kSumTolerance = 1e-6;

class HessiansCommand : public testing::Test {
 protected:
  void SetUp() override { folder_ = scratch_dir("hessians"); }
  std::string path(const std::string& name) const { return (folder_ / name).string(); }

  /// 9 windows of 200 tokens: they end inside the blocks of 256 rows that are summed in f32.
  void capture(const std::string& name, const std::vector<std::string>& extra, int code = 0) {
    std::vector<std::string> arguments{"hessians", "capture",  tiny_model(), path(name), "--calib",
                                       eval_text(), "--tokens", "1800",      "--window", "200"};
    arguments.insert(arguments.end(), extra.begin(), extra.end());
    expect_exit(code, arguments);
  }
  json inspect(const std::string& name, const std::vector<std::string>& extra = {}) {
    std::vector<std::string> arguments{"hessians", "inspect", path(name), "--json", "--quiet"};
    arguments.insert(arguments.end(), extra.begin(), extra.end());
    return json::parse(expect_exit(0, arguments).out);
  }
  fs::path folder_;
};

TEST_F(HessiansCommand, merged_parts_equal_the_single_run) {
  capture("whole", {});
  std::vector<std::string> merge{"hessians", "merge"};
  for (const char* part : {"1/4", "2/4", "3/4", "4/4"}) {
    capture(std::string("part") + part[0], {"--part", part});
    merge.push_back(path(std::string("part") + part[0]));
  }
  merge.push_back(path("merged"));
  expect_exit(0, merge);
  const auto whole = calib::HessianCache::open(path("whole"));
  const auto merged = calib::HessianCache::open(path("merged"));
  EXPECT_TRUE(calib::identity_differences(*whole.identity(), merged.identity().value()).empty());
  ASSERT_EQ(whole.entries().size(), merged.entries().size());
  for (std::size_t e = 0; e < whole.entries().size(); ++e) {
    EXPECT_EQ(whole.entries()[e].names, merged.entries()[e].names);
    EXPECT_EQ(merged.entries()[e].count, 1800);
    const auto a = whole.read(e);
    const auto b = merged.read(e);
    for (std::int64_t i = 0; i < a->n(); ++i) {
      for (std::int64_t j = i; j < a->n(); ++j) {
        const double scale = std::sqrt(a->view()(i, i) * a->view()(j, j));
        ASSERT_NEAR(a->view()(i, j), b->view()(i, j), kSumTolerance * scale);
      }
    }
  }
  // The merged file serves a run that names the same text.
  expect_exit(0, {"gptq", tiny_model(), "--output", path("m.cmf"), "--calib", eval_text(),
                  "--tokens", "1800", "--window", "200", "--hessians", path("merged"), "--quiet"});
}

TEST_F(HessiansCommand, a_single_part_is_no_calibration_of_its_own) {
  capture("part1", {"--part", "1/3"});
  const json identity = inspect("part1", {"--quick"})["identity"];
  EXPECT_EQ(identity["parts"], json::array({1}));
  EXPECT_EQ(identity["part_count"], 3);
  EXPECT_EQ(identity["tokens"], 600);
  const ProgramResult refused = expect_exit(
      3, {"gptq", tiny_model(), "--output", path("o.cmf"), "--hessians", path("part1"), "--quiet"});
  EXPECT_NE(refused.err.find("parts: all here, 1 of 3 in the cache"), std::string::npos);
  const ProgramResult twice = expect_exit(
      2, {"hessians", "merge", path("part1"), path("part1"), path("out"), "--quiet"});
  EXPECT_NE(twice.err.find("twice"), std::string::npos);
  expect_exit(2, {"hessians", "merge", path("part1"), path("part1")});
  expect_exit(2, {"hessians", "merge", path("part1"), path("x"), path("part1")});
  capture("none", {"--part", "4/3"}, 2);
  capture("none", {"--part", "1/10"}, 3);
}

TEST_F(HessiansCommand, inspect_shows_conditions_channels_and_counts) {
  capture("whole", {});
  const json report = inspect("whole");
  ASSERT_EQ(report["entries"].size(), 16U);
  for (const json& entry : report["entries"]) {
    EXPECT_EQ(entry["count"], 1800);
    EXPECT_EQ(entry["dead_channels"], entry["dead"].size());
    EXPECT_EQ(entry["outlier_channels"], entry["outliers"].size());
    const json& c = entry["conditioning"];
    EXPECT_GE(c["condition"].get<double>(), c["damped_condition"].get<double>());
    const double n = entry["cols"];
    // The trace bounds the largest eigenvalue from both sides.
    const double mean = entry["mean_diagonal"];
    EXPECT_GE(c["largest_eigenvalue"].get<double>(), mean * 0.99);
    EXPECT_LE(c["largest_eigenvalue"].get<double>(), mean * n);
    // And damping bounds the condition.
    EXPECT_LE(c["damped_condition"].get<double>(), 1 + n / 0.01);
  }
  const std::string text = expect_exit(0, {"hessians", "inspect", path("whole"), "--quiet"}).out;
  EXPECT_NE(text.find("condition"), std::string::npos);
  EXPECT_TRUE(inspect("whole", {"--quick"})["entries"][0]["conditioning"].is_null());
}

TEST_F(HessiansCommand, damaged_caches_are_refused_wherever_they_are_read) {
  capture("a", {});
  capture("b", {"--part", "1/2"});
  const std::string good = read_file(path("a"));
  std::string bad = good;
  bad[bad.size() / 2] = static_cast<char>(bad[bad.size() / 2] ^ 1);  // of a mantissa
  const auto put = [&](const std::string& bytes) {
    std::ofstream(path("a"), std::ios::binary) << bytes;
  };
  put(bad);
  const std::vector<std::vector<std::string>> commands{
      {"gptq", tiny_model(), "--output", path("m.cmf"), "--hessians", path("a"), "--quiet"},
      {"hessians", "merge", path("a"), path("b"), path("m"), "--quiet"},
      {"hessians", "inspect", path("a")},
      {"compare", tiny_model(), tiny_model(), "--hessians", path("a"), "--quiet"}};
  for (const auto& command : commands) {
    const ProgramResult result = expect_exit(1, command);
    EXPECT_NE(result.err.find("its sha256 is"), std::string::npos) << result.err;
    EXPECT_NE(result.err.find("capture it again"), std::string::npos) << result.err;
    EXPECT_FALSE(fs::exists(path("m.cmf")) || fs::exists(path("m")));
  }
  // Without an identity the values tell, where they are far off: here a product of two channels.
  fs::remove(path("a.json"));
  const auto cache = calib::HessianCache::open(path("a"));
  const auto& entry = cache.entries().front();
  bad = good;
  const double large = 1e9;
  std::memcpy(bad.data() + entry.payload_offset + 8 * static_cast<std::size_t>(entry.cols + 1),
              &large, sizeof large);
  put(bad);
  const ProgramResult result = expect_exit(1, commands.front());
  EXPECT_NE(result.err.find(entry.names.front()), std::string::npos) << result.err;
  EXPECT_NE(result.err.find("holds 1e+09 at (0, 1)"), std::string::npos) << result.err;
  EXPECT_FALSE(fs::exists(path("m.cmf")));
  put(good);
  expect_exit(0, commands.front());
}

}  // namespace cortiq::test
