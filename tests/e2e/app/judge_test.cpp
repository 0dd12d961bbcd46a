// compare, ppl and kld on the bundled model.
#include <cmath>

#include "e2e.hpp"

namespace cortiq::test {
namespace fs = std::filesystem;
using nlohmann::json;

/// What one matrix in a codec may do to the perplexity: about twice the measured loss. How each codec
/// decodes is checked to the bit elsewhere (golden/codec).
struct CodecBound {
  const char* codec;
  double factor;
};
constexpr CodecBound kCodecs[] = {
    {"f16", 1.000001}, {"q8", 1.0005}, {"q8_2f", 1.0005}, {"q4", 1.015}, {"q4t", 1.015},
    {"q4tp", 1.015},   {"q2tp", 1.15}, {"vbit", 1.015},   {"mxfp4", 1.02}, {"q1", 2.5},
    {"q1p", 6},        {"q1s", 5},     {"q1t", 1.5},
};

json ppl(const fs::path& model) {
  return json::parse(expect_exit(0, {"ppl", model.string(), eval_text(), "--tokens", "2048",
                                     "--json", "--quiet"})
                         .out);
}

TEST(JudgeCommands, ppl_runs_on_every_codec) {
  const fs::path folder = scratch_dir("judge-codecs");
  const double base = ppl(tiny_model())["perplexity"];
  for (const CodecBound& bound : kCodecs) {
    const fs::path file = folder / (std::string(bound.codec) + ".cmf");
    const std::string one = "model.layers.0.mlp.up_proj.weight=" + std::string(bound.codec);
    expect_exit(0, {"quantize", tiny_model(), "--codec", "f16", "--tensor-quant", one, "--output",
                    file.string(), "--quiet"});
    const double got = ppl(file)["perplexity"];
    EXPECT_GT(got, base * 0.999999) << bound.codec;
    EXPECT_LT(got, base * bound.factor) << bound.codec;
  }
  for (const char* dtype : {"f32", "bf16"}) {
    const fs::path file = folder / (std::string(dtype) + ".cmf");
    expect_exit(0, {"convert", tiny_model(), file.string(), "--dtype", dtype, "--quiet"});
    EXPECT_NEAR(ppl(file)["perplexity"].get<double>() / base, 1, 2e-3) << dtype;
  }
}

TEST(JudgeCommands, kld_shows_mean_median_percentile_and_agreement) {
  const fs::path folder = scratch_dir("judge-kld");
  const std::string test = (folder / "q4tp.cmf").string();
  expect_exit(0, {"quantize", tiny_model(), "--codec", "q4tp", "--output", test, "--quiet"});
  const std::vector<std::string> command{"kld", tiny_model(), test, eval_text(),
                                         "--tokens", "2048", "--quiet"};
  std::vector<std::string> with_json = command;
  with_json.push_back("--json");
  const json result = json::parse(expect_exit(0, with_json).out);
  EXPECT_GT(result["median_kl"].get<double>(), 0);
  EXPECT_LT(result["median_kl"], result["mean_kl"]);
  EXPECT_LT(result["mean_kl"], result["p99_kl"]);
  EXPECT_GT(result["top1_agreement"].get<double>(), 0.5);
  EXPECT_LT(result["top1_agreement"].get<double>(), 1);
  EXPECT_EQ(result["tokens"], 8 * 255);
  EXPECT_NEAR(result["base_perplexity"].get<double>(), ppl(tiny_model())["perplexity"], 1e-9);
  const std::string text = expect_exit(0, command).out;
  for (const char* word : {"mean KL", "median", "99th percentile", "top-1 agreement"})
    EXPECT_NE(text.find(word), std::string::npos) << text;
}

TEST(JudgeCommands, compare_finds_the_output_errors_that_gptq_reports) {
  const fs::path folder = scratch_dir("judge-compare");
  const std::string cache = (folder / "h.hess").string();
  const fs::path quantized = folder / "q.cmf";
  short_gptq(quantized, {"--hessians", cache, "--report", (folder / "r.json").string()});
  const json report = json::parse(read_file(folder / "r.json"));
  const std::vector<std::string> command{"compare", tiny_model(), quantized.string(),
                                         "--hessians", cache, "--quiet"};
  std::vector<std::string> with_json = command;
  with_json.push_back("--json");
  const json result = json::parse(expect_exit(0, with_json).out);
  ASSERT_EQ(result["tensors"].size(), report["tensors"].size());
  std::size_t compared = 0;
  for (std::size_t i = 0; i < report["tensors"].size(); ++i) {
    const json& want = report["tensors"][i];
    const json& got = result["tensors"][i];
    EXPECT_EQ(got["name"], want["name"]);
    EXPECT_EQ(got["b_dtype"], want["codec"]);
    if (want["action"] == "copied") {
      EXPECT_EQ(got["unequal"], 0);
    }
    if (want["action"] != "gptq") continue;
    ++compared;
    const double error = want["error"];
    EXPECT_NEAR(got["output_error"].get<double>() / error, 1, 1e-5) << got["name"];
    EXPECT_GT(got["weight_error"].get<double>(), 0);
  }
  EXPECT_EQ(compared, 28U);
  EXPECT_EQ(result["only_in_a"], json::array());
  EXPECT_NE(expect_exit(0, command).out.find("output error"), std::string::npos);
  // Against itself nothing differs, whatever the number of threads.
  for (const char* threads : {"1", "3"}) {
    const json same = json::parse(expect_exit(0, {"compare", quantized.string(), quantized.string(),
                                                  "--threads", threads, "--json", "--quiet"})
                                      .out);
    EXPECT_EQ(same["weight_error"], 0.0);
  }
  expect_exit(2, {"compare", tiny_model(), quantized.string(), "--hessians-force"});
}

}  // namespace cortiq::test
