// gptq --codec q1s and q1t on the bundled model.
#include "e2e.hpp"

namespace cortiq::test {
namespace fs = std::filesystem;
namespace {

std::string fingerprint(const fs::path& model) {
  std::string text;
  for (const auto& [name, hash] : tensor_hashes(model)) text += name + hash;
  return text;
}

}  // namespace

TEST(OneBitCommand, files_verify_and_are_far_closer_to_the_original_than_rounding) {
  const fs::path folder = scratch_dir("one-bit");
  for (const std::string codec : {"q1s", "q1t"}) {
    const fs::path gptq = folder / (codec + ".cmf");
    const fs::path rounded = folder / (codec + "-rounded.cmf");
    short_gptq(gptq, {"--codec", codec, "--report", (folder / "r.json").string()});
    expect_exit(0, {"quantize", tiny_model(), "--codec", codec, "--output", rounded.string(),
                    "--quiet"});
    expect_exit(0, {"verify", gptq.string()});
    EXPECT_LT(mean_kl(tiny_model(), gptq), 0.8 * mean_kl(tiny_model(), rounded)) << codec;
    for (const auto& [name, value] : tensor_hashes(gptq)) {
      const bool layer = name.find("_proj") != std::string::npos;
      EXPECT_EQ(value.starts_with(codec), layer) << name;
    }
    const auto header = header_of(gptq);
    EXPECT_EQ(header["quant_type"], "VBIT");
    EXPECT_EQ(header["provenance"]["weight_quant"], codec);
    EXPECT_EQ(header["provenance"]["gptq"]["keep"], 0.01);
    EXPECT_EQ(header["provenance"]["gptq"]["linears"], 28);
    const auto report = nlohmann::json::parse(read_file(folder / "r.json"));
    for (const auto& tensor : report["tensors"]) {
      if (tensor["action"] != "gptq") continue;
      EXPECT_LT(tensor["error"].get<double>(), tensor["rtn_error"].get<double>()) << tensor["name"];
    }
  }
}

TEST(OneBitCommand, bytes_do_not_depend_on_threads_or_on_where_the_hessians_come_from) {
  const fs::path folder = scratch_dir("one-bit-threads");
  const std::string cache = (folder / "h").string();
  for (const std::string codec : {"q1s", "q1t"}) {
    short_gptq(folder / (codec + "1"), {"--codec", codec, "--threads", "1"});
    short_gptq(folder / (codec + "5"), {"--codec", codec, "--threads", "5"});
    short_gptq(folder / (codec + "h"), {"--codec", codec, "--hessians", cache});
    EXPECT_TRUE(same_bytes(folder / (codec + "1"), folder / (codec + "5"))) << codec;
    EXPECT_EQ(fingerprint(folder / (codec + "1")), fingerprint(folder / (codec + "h"))) << codec;
  }
}

TEST(OneBitCommand, every_option_changes_the_weights) {
  const fs::path folder = scratch_dir("one-bit-options");
  const std::vector<std::vector<std::string>> choices{
      {},
      {"--keep", "0"},
      {"--keep", "0.03"},
      {"--keep", "0.03", "--col-mask"},
      {"--down-keep", "4"},
      {"--max-cols", "128"},
      {"--no-row-rescale"},
      {"--order", "natural"},
      {"--rung", "diag"},
      {"--polish", "0"},
      {"--lambda", "0"},
      {"--lambda", "1e5"},
      {"--skip", "embed_tokens,o_proj"},
      {"--tensor-quant", "*.down_proj.weight=q4tp"},
      {"--tensor-quant", "*.down_proj.weight=q1s"}};
  std::map<std::string, std::size_t> seen;
  for (std::size_t i = 0; i < choices.size(); ++i) {
    std::vector<std::string> extra = choices[i];
    extra.insert(extra.end(), {"--codec", "q1t"});
    short_gptq(folder / std::to_string(i), extra);
    const auto [at, fresh] = seen.try_emplace(fingerprint(folder / std::to_string(i)), i);
    EXPECT_TRUE(fresh) << "choices " << at->second << " and " << i << " gave the same weights";
  }
}

TEST(OneBitCommand, options_without_effect_are_refused_by_name) {
  const fs::path folder = scratch_dir("one-bit-refusals");
  const std::vector<std::vector<std::string>> wrong{
      {"--keep", "0.02"},
      {"--col-mask"},
      {"--down-keep", "2"},
      {"--max-cols", "64"},
      {"--no-row-rescale"},
      {"--no-row-rescale", "--codec", "q1s"},
      {"--ladder", "fit", "--codec", "q1s"},
      {"--q4tp-debias", "--codec", "q1t"},
      {"--order", "act", "--codec", "q1s"},
      {"--rung", "all", "--codec", "q1s"},
      {"--keep", "0.3", "--codec", "q1s"},
      {"--down-keep", "0.5", "--codec", "q1s"}};
  for (const auto& extra : wrong) {
    const ProgramResult result = short_gptq(folder / "a.cmf", extra, 2);
    EXPECT_NE(result.err.find(extra.front()), std::string::npos) << result.err;
    EXPECT_FALSE(fs::exists(folder / "a.cmf"));
  }
}

}  // namespace cortiq::test
