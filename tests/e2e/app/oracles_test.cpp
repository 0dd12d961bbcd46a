// Every model of tests/data/oracles through convert, calibration and GPTQ.
#include <algorithm>
#include <cmath>

#include "e2e.hpp"

namespace cortiq::test {
namespace fs = std::filesystem;
using nlohmann::json;

std::vector<std::string> oracles() {
  std::vector<std::string> names;
  for (const auto& entry : fs::directory_iterator(data_dir() / "oracles")) {
    if (fs::exists(entry.path() / "config.json")) names.push_back(entry.path().filename().string());
  }
  std::sort(names.begin(), names.end());
  return names;
}

class Oracles : public testing::TestWithParam<std::string> {
 protected:
  void SetUp() override {
    folder_ = scratch_dir("oracle-" + GetParam());
    model_ = (data_dir() / "oracles" / GetParam()).string();
  }
  std::string path(const std::string& name) const { return (folder_ / name).string(); }
  json gptq(const std::string& model, const std::string& codec, const std::string& output) {
    std::vector<std::string> words{"gptq",       model,     "--codec",  codec,       "--output",
                                   path(output), "--calib", eval_text(), "--tokens", "4096",
                                   "--window",   "128",     "--report", path(output + ".json"),
                                   "--quiet"};
    if (codec == "q2tp") words.push_back("--allow-few-tokens");
    expect_exit(0, words);
    return json::parse(read_file(path(output + ".json")));
  }
  fs::path folder_;
  std::string model_;
};

/// Perplexity on the whole bundled text in windows of 128, as the reference.
double perplexity_in_oracle_windows(const std::string& model) {
  const ProgramResult result = expect_exit(
      0, {"ppl", model, eval_text(), "--window", "128", "--json", "--quiet"});
  return json::parse(result.out)["perplexity"];
}

TEST_P(Oracles, converts_and_keeps_its_perplexity) {
  const json reference = json::parse(read_file(fs::path(model_) / "ref/ref.json"));
  expect_exit(0, {"convert", model_, path("model.cmf"), "--dtype", "bf16", "--quiet"});
  expect_exit(0, {"verify", path("model.cmf")});
  // Weights of float16 lose three bits in bfloat16; those of bfloat16 none.
  const double want = reference["eval"]["ppl"];
  EXPECT_NEAR(perplexity_in_oracle_windows(path("model.cmf")) / want, 1, 5e-3);
  EXPECT_NEAR(perplexity_in_oracle_windows(model_) / want, 1, 5e-4);
}

TEST_P(Oracles, gptq_reaches_every_matrix_and_beats_rounding) {
  expect_exit(0, {"convert", model_, path("model.cmf"), "--quiet"});
  for (const char* codec : {"q4tp", "q2tp"}) {
    SCOPED_TRACE(codec);
    const json report = gptq(path("model.cmf"), codec, std::string(codec) + ".cmf");
    expect_exit(0, {"verify", path(std::string(codec) + ".cmf")});
    EXPECT_EQ(report["missed"], 0);
    std::size_t count = 0;
    double logs = 0;
    for (const json& tensor : report["tensors"]) {
      if (tensor["action"] != "gptq") continue;
      ++count;
      logs += std::log(tensor["error"].get<double>() / tensor["rtn_error"].get<double>());
    }
    ASSERT_GE(count, 14U);
    EXPECT_LT(std::exp(logs / static_cast<double>(count)), 0.95);
  }
  // The folder gives the same weights as its conversion.
  gptq(model_, "q4tp", "folder.cmf");
  EXPECT_EQ(tensor_hashes(path("folder.cmf")), tensor_hashes(path("q4tp.cmf")));
}

INSTANTIATE_TEST_SUITE_P(Models, Oracles, testing::ValuesIn(oracles()),
                         [](const auto& model) { return model.param; });

}  // namespace cortiq::test
