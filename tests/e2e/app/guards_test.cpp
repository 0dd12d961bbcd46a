// Guards found by trying: outputs that would destroy inputs, damaged inputs, values beyond a codec, checks that must
// come before long work.
#include <filesystem>
#include <fstream>

#include "e2e.hpp"

namespace cortiq::test {
namespace fs = std::filesystem;

namespace {

fs::path copy_of_model(const fs::path& folder) {
  const fs::path model = folder / "model";
  fs::copy(tiny_model(), model);
  return model;
}

void flip_byte(const fs::path& file, std::uintmax_t offset) {
  std::fstream stream(file, std::ios::in | std::ios::out | std::ios::binary);
  stream.seekg(static_cast<std::streamoff>(offset));
  const int byte = stream.get();
  stream.seekp(static_cast<std::streamoff>(offset));
  stream.put(static_cast<char>(byte ^ 0x10));
}

}  // namespace

TEST(Guards, a_recipe_is_never_written_over_a_file_of_the_run) {
  const fs::path folder = scratch_dir("guards-recipe");
  const fs::path model = copy_of_model(folder);
  const std::string out = (folder / "o.cmf").string();
  const std::string cache = (folder / "c.hess").string();
  for (const std::string& recipe : {(model / "model.safetensors").string(), (model / "config.json").string(), out,
                                    cache, cache + ".json"}) {
    expect_exit(2, {"gptq", model.string(), "--output", out, "--hessians", cache, "--tokens", "512", "--window", "128",
                    "--device", "cpu", "--recipe-out", recipe});
  }
  expect_exit(2, {"quantize", model.string(), "--output", out, "--recipe-out", out});
  expect_exit(2, {"quantize", model.string(), "--output", out, "--recipe-out", (model / "config.json").string()});
  EXPECT_FALSE(fs::exists(out));
  EXPECT_FALSE(fs::exists(cache));
  EXPECT_EQ(fs::file_size(model / "model.safetensors"), fs::file_size(fs::path(tiny_model()) / "model.safetensors"));
}

TEST(Guards, a_damaged_tensor_is_refused_by_every_command_that_reads_it) {
  const fs::path folder = scratch_dir("guards-damaged");
  const std::string model = (folder / "m.cmf").string();
  expect_exit(0, {"convert", tiny_model(), model});
  flip_byte(model, fs::file_size(model) / 2);
  const std::vector<std::vector<std::string>> commands{
      {"gptq", model, "--output", (folder / "o.cmf").string(), "--tokens", "512", "--window", "128", "--device", "cpu"},
      {"quantize", model, "--output", (folder / "o.cmf").string()},
      {"ppl", model, eval_text(), "--tokens", "512"},
      {"compare", model, model}};
  for (const auto& command : commands) {
    const auto result = expect_exit(1, command);
    EXPECT_NE(result.err.find("hash mismatch"), std::string::npos) << command.front();
  }
  EXPECT_FALSE(fs::exists(folder / "o.cmf"));
}

TEST(Guards, empty_values_and_options_without_effect_are_refused) {
  const fs::path folder = scratch_dir("guards-empty");
  const std::string out = (folder / "o.cmf").string();
  const std::vector<std::vector<std::string>> wrong{{"--target-bpw", ""},     {"--target-size", ""},
                                                    {"--vram-gb", ""},        {"--vram-gb", "1", "--device", "cpu"},
                                                    {"--vram-gb", "inf"},     {"--codec", "q1s", "--keep", "nan"},
                                                    {"--target-bpw", "nan"}};
  for (const auto& options : wrong) {
    std::vector<std::string> arguments{"gptq", tiny_model(), "--output", out, "--hessians", (folder / "c").string()};
    arguments.insert(arguments.end(), options.begin(), options.end());
    expect_exit(2, arguments);
  }
}

TEST(Guards, a_target_run_refuses_before_it_calibrates) {
  const fs::path folder = scratch_dir("guards-target");
  const std::string cache = (folder / "c.hess").string();
  const std::vector<std::vector<std::string>> wrong{{"--sequential"},
                                                    {"--tensor-quant", "*nothing*=f16"},
                                                    {"--report", "/nonexistent/x.json"}};
  for (const auto& options : wrong) {
    std::vector<std::string> arguments{"gptq", tiny_model(), "--output", (folder / "o.cmf").string(), "--hessians", cache,
                                       "--target-bpw", "4", "--allow-few-tokens", "--tokens", "512", "--window", "128"};
    arguments.insert(arguments.end(), options.begin(), options.end());
    EXPECT_NE(run_program(arguments).exit_code, 0);
    EXPECT_FALSE(fs::exists(cache)) << options.front();
  }
  expect_exit(0, {"gptq", tiny_model(), "--output", (folder / "o.cmf").string(), "--hessians", cache, "--target-bpw", "9",
                  "--allow-few-tokens", "--tokens", "512", "--window", "128", "--dry-run"});
  EXPECT_FALSE(fs::exists(cache));
  // Above what q4tp takes everywhere, no matrix need be swept.
  expect_exit(0, {"gptq", tiny_model(), "--output", (folder / "o.cmf").string(), "--hessians", cache, "--target-bpw", "9",
                  "--allow-few-tokens", "--tokens", "512", "--window", "128", "--device", "cpu"});
  EXPECT_TRUE(fs::exists(folder / "o.cmf"));
}

}  // namespace cortiq::test
