// --target-bpw and --target-size on the bundled model.
#include <fmt/format.h>

#include <filesystem>
#include <fstream>

#include "e2e.hpp"

namespace cortiq::test {
namespace fs = std::filesystem;

namespace {

/// Bits per weight of the matrices of the layers, from the file's directory.
double bits_of_layers(const fs::path& model) {
  const auto info = nlohmann::json::parse(expect_exit(0, {"inspect", model.string(), "--json"}).out);
  double bytes = 0, weights = 0;
  for (const auto& tensor : info["tensors"]) {
    if (tensor["shape"].size() != 2 || tensor["name"].get<std::string>().find("layers.") == std::string::npos) continue;
    bytes += tensor["bytes"].get<double>();
    weights += tensor["shape"][0].get<double>() * tensor["shape"][1].get<double>();
  }
  return 8 * bytes / weights;
}

std::vector<std::string> run_with(const fs::path& folder, const std::string& name, const std::vector<std::string>& more) {
  std::vector<std::string> arguments{"gptq", tiny_model(), "--output", (folder / name).string(), "--hessians",
                                     (folder / "c.hess").string(), "--tokens", "4096", "--window", "128",
                                     "--allow-few-tokens", "--device", "cpu"};
  arguments.insert(arguments.end(), more.begin(), more.end());
  return arguments;
}

}  // namespace

TEST(BitTarget, mean_bits_are_met_and_beat_the_profile_of_two_bits_at_equal_bytes) {
  const fs::path folder = scratch_dir("bit-target");
  expect_exit(0, run_with(folder, "profile.cmf", {"--codec", "q2tp"}));  // captures the cache too
  const double profile = bits_of_layers(folder / "profile.cmf");
  const auto result = expect_exit(0, run_with(folder, "target.cmf", {"--target-bpw", std::to_string(profile), "--recipe-out",
                                                                    (folder / "recipe.json").string()}));
  EXPECT_NE(result.err.find("per weight over 28 matrices whose codec is chosen"), std::string::npos);
  EXPECT_LE(bits_of_layers(folder / "target.cmf"), profile + 1e-6);
  EXPECT_GT(bits_of_layers(folder / "target.cmf"), profile - 0.1);
  // Closing table and inspect show the same two figures.
  const auto shown = nlohmann::json::parse(expect_exit(0, {"inspect", (folder / "target.cmf").string(), "--json"}).out);
  EXPECT_DOUBLE_EQ(shown["layer_bits_per_weight"].get<double>(), bits_of_layers(folder / "target.cmf"));
  const std::string figures = fmt::format("{:.3f} bits per weight in all, {:.3f} in the matrices without embedding and head",
                                          shown["bits_per_weight"].get<double>(), bits_of_layers(folder / "target.cmf"));
  EXPECT_NE(result.err.find(figures), std::string::npos) << figures << result.err;
  EXPECT_NE(result.err.find(figures), result.err.rfind(figures));  // the plan says it too
  EXPECT_LT(mean_kl(tiny_model(), folder / "target.cmf"), mean_kl(tiny_model(), folder / "profile.cmf"));
  // The recipe holds the allocation: the same file without measuring again.
  expect_exit(0, run_with(folder, "again.cmf", {"--recipe", (folder / "recipe.json").string()}));
  EXPECT_EQ(tensor_hashes(folder / "target.cmf"), tensor_hashes(folder / "again.cmf"));
}

TEST(BitTarget, a_size_is_kept_and_an_impossible_one_refused_with_the_least_possible) {
  const fs::path folder = scratch_dir("bit-size");
  expect_exit(0, run_with(folder, "small.cmf", {"--target-size", "700kB"}));
  EXPECT_LE(fs::file_size(folder / "small.cmf"), 700000U);
  EXPECT_GT(fs::file_size(folder / "small.cmf"), 670000U);  // the smallest matrices take 4 to 12 kB more at q8_2f
  const auto refused = expect_exit(3, run_with(folder, "none.cmf", {"--target-bpw", "1.5"}));
  EXPECT_NE(refused.err.find("with q2tp everywhere"), std::string::npos);
  EXPECT_FALSE(fs::exists(folder / "none.cmf"));
  const auto small = expect_exit(3, run_with(folder, "none.cmf", {"--target-size", "100kB"}));
  const std::string before = "the file takes ";
  const auto place = small.err.find(before);
  ASSERT_NE(place, std::string::npos);
  const std::uint64_t least = std::stoull(small.err.substr(place + before.size()));
  // What is named as possible is possible, and is the size of the file.
  expect_exit(3, run_with(folder, "none.cmf", {"--target-size", std::to_string(least - 1)}));
  expect_exit(0, run_with(folder, "least.cmf", {"--target-size", std::to_string(least)}));
  EXPECT_EQ(fs::file_size(folder / "least.cmf"), least);
  expect_exit(2, {"gptq", tiny_model(), "--target-bpw", "3"});
  expect_exit(2, run_with(folder, "x.cmf", {"--target-bpw", "3", "--target-size", "1MB"}));
  expect_exit(2, run_with(folder, "x.cmf", {"--target-size", "many"}));
}

}  // namespace cortiq::test
