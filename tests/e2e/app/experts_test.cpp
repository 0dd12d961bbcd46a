// Experts that the calibration hardly reaches, on the mixture-of-experts model of the zoo.
#include <algorithm>
#include <fstream>

#include "e2e.hpp"

namespace cortiq::test {
namespace fs = std::filesystem;
using nlohmann::json;

class ExpertsCommand : public testing::Test {
 protected:
  void SetUp() override {
    if (!fs::exists(zoo_dir() / "qwen3_moe/config.json"))
      GTEST_SKIP() << "no model " << zoo_dir() / "qwen3_moe";
    folder_ = scratch_dir("experts");
  }

  /// Runs gptq on 512 tokens; returns the report.
  json run(const std::string& output, const std::vector<std::string>& extra, int code = 0) {
    const fs::path report = folder_ / (output + ".json");
    std::vector<std::string> arguments{"gptq",     (zoo_dir() / "qwen3_moe").string(),
                                       "--output", (folder_ / output).string(),
                                       "--calib",  eval_text(),
                                       "--tokens", "512",
                                       "--window", "256",
                                       "--report", report.string()};
    arguments.insert(arguments.end(), extra.begin(), extra.end());
    log_ = expect_exit(code, arguments).err;
    std::ifstream file(report);
    return json::parse(file, nullptr, false);
  }

  static json tensor(const json& report, const std::string& name) {
    for (const json& entry : report["tensors"]) {
      if (entry["name"] == name) return entry;
    }
    ADD_FAILURE() << name;
    return {};
  }

  /// Layer and number of an expert that no row reached.
  static std::pair<std::string, std::size_t> unused_expert(const json& report) {
    for (const auto& [layer, rows] : report["expert_rows"].items()) {
      const auto found = std::find(rows.begin(), rows.end(), json(0));
      if (found != rows.end()) return {layer, static_cast<std::size_t>(found - rows.begin())};
    }
    ADD_FAILURE() << "every expert was reached: " << report["expert_rows"].dump();
    return {"1", 0};
  }

  fs::path folder_;
  std::string log_;
};

TEST_F(ExpertsCommand, an_expert_without_tokens_is_encoded_with_a_prior_and_listed) {
  const json report = run("prior.cmf", {});
  expect_exit(0, {"verify", (folder_ / "prior.cmf").string()});
  ASSERT_EQ(report["expert_rows"].size(), 3U);
  std::int64_t sum = 0;
  for (const json& rows : report["expert_rows"]["2"]) sum += rows.get<std::int64_t>();
  EXPECT_EQ(sum, 2 * 512);
  const auto [layer, expert] = unused_expert(report);
  const std::string name = "model.layers." + layer + ".mlp.experts." + std::to_string(expert) + ".";
  for (const char* part : {"gate", "up", "down"}) {
    const json entry = tensor(report, name + part + "_proj.weight");
    EXPECT_EQ(entry["action"], "gptq");
    EXPECT_EQ(entry["codec"], "q4tp");
    EXPECT_EQ(entry["hessian_rows"], 0);
    EXPECT_EQ(entry["prior_rows"], 128);
    EXPECT_EQ(entry["identity"], false);
    EXPECT_LT(entry["error"], entry["rtn_error"]);
  }
  EXPECT_EQ(report["missed"], 0);
  EXPECT_NE(log_.find("experts of layer " + layer + ": 0 to "), std::string::npos) << log_;
  EXPECT_NE(log_.find(std::to_string(expert) + " (0)"), std::string::npos) << log_;
  const json provenance = header_of(folder_ / "prior.cmf")["provenance"]["gptq"];
  EXPECT_EQ(provenance["moe_prior"], 128);
  EXPECT_EQ(provenance["min_rows"], 32);
  const json& listed = provenance["expert_prior"];
  EXPECT_NE(std::find(listed.begin(), listed.end(), json(name + "up_proj.weight")), listed.end());
}

TEST_F(ExpertsCommand, a_cache_gives_the_same_weights_with_the_same_priors) {
  const std::string cache = (folder_ / "a.hess").string();
  const json fresh = run("fresh.cmf", {"--hessians", cache});
  const json cached = run("cached.cmf", {"--hessians", cache, "--threads", "1"});
  EXPECT_EQ(fresh["expert_rows"], cached["expert_rows"]);
  EXPECT_EQ(tensor_hashes(folder_ / "fresh.cmf"), tensor_hashes(folder_ / "cached.cmf"));
}

TEST_F(ExpertsCommand, without_a_prior_such_experts_are_rounded_and_missed) {
  const json report = run("rounded.cmf", {"--moe-prior", "0", "--max-missed", "1000"});
  const auto [layer, expert] = unused_expert(report);
  const json entry = tensor(report, "model.layers." + layer + ".mlp.experts." +
                                        std::to_string(expert) + ".down_proj.weight");
  EXPECT_EQ(entry["missed"], true);
  EXPECT_EQ(entry["action"], "rounded");
  EXPECT_GE(report["missed"], 3);
  run("refused.cmf", {"--moe-prior", "0"}, 3);
}

TEST_F(ExpertsCommand, min_rows_decides_who_gets_the_prior) {
  const json report = run("many.cmf", {"--min-rows", "100000", "--moe-prior", "40"});
  for (const json& entry : report["tensors"]) {
    if (entry["name"].get<std::string>().find(".experts.") == std::string::npos) continue;
    EXPECT_EQ(entry["prior_rows"], 40) << entry["name"];
  }
}

}  // namespace cortiq::test
