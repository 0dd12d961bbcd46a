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
                                                    {"--target-bpw", "nan"},  {"--mem-gb", "1e300"},
                                                    {"--mem-gb", "2e10"},     {"--vram-gb", "1e300"},
                                                    {"--mem-gb", "0"},        {"--mem-gb", "nan"}};
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

TEST(Guards, a_word_that_is_no_command_is_named_with_the_commands) {
  for (const std::vector<std::string>& words : {std::vector<std::string>{"qptq", "model"}, {"--json-log", "qptq"}}) {
    const auto result = expect_exit(2, words);
    EXPECT_NE(result.err.find("unknown command 'qptq'"), std::string::npos) << result.err;
    EXPECT_NE(result.err.find("gptq, quantize, convert"), std::string::npos) << result.err;
  }
  EXPECT_NE(expect_exit(2, {}).err.find("A subcommand is required"), std::string::npos);
}

TEST(Guards, the_default_window_follows_a_model_of_few_positions_and_one_position_is_refused) {
  const fs::path folder = scratch_dir("guards-positions");
  const fs::path model = copy_of_model(folder);
  const auto with_positions = [&](int positions) {
    std::ifstream in(fs::path(tiny_model()) / "config.json");
    auto config = nlohmann::json::parse(in);
    config["max_position_embeddings"] = positions;
    std::ofstream(model / "config.json") << config;
  };
  const std::vector<std::string> ppl{"ppl", model.string(), eval_text(), "--tokens", "512", "--json"};
  with_positions(100);
  EXPECT_EQ(nlohmann::json::parse(expect_exit(0, ppl).out)["window"], 100);
  std::vector<std::string> wide = ppl;
  wide.insert(wide.end(), {"--window", "256"});
  EXPECT_NE(expect_exit(3, wide).err.find("--window 256"), std::string::npos);
  with_positions(1);
  EXPECT_NE(expect_exit(3, ppl).err.find("only 1 position"), std::string::npos);
  const auto refused = expect_exit(3, {"gptq", model.string(), "--output", (folder / "o.cmf").string(), "--device", "cpu"});
  EXPECT_NE(refused.err.find("only 1 position"), std::string::npos) << refused.err;
}

TEST(Guards, rope_settings_that_contradict_each_other_are_warned_of) {
  const fs::path folder = scratch_dir("guards-rope");
  const fs::path model = copy_of_model(folder);
  std::ifstream in(fs::path(tiny_model()) / "config.json");
  auto config = nlohmann::json::parse(in);
  config.erase("rope_scaling");
  config["rope_theta"] = 10000.0;
  config["rope_parameters"] = {{"rope_type", "default"}, {"rope_theta", 90000.0}};
  std::ofstream(model / "config.json") << config;
  const std::string file = (folder / "m.cmf").string();
  for (const auto& command : std::vector<std::vector<std::string>>{
           {"convert", model.string(), file},
           {"ppl", model.string(), eval_text(), "--tokens", "512"},
           {"gptq", model.string(), "--output", (folder / "o.cmf").string(), "--device", "cpu", "--tokens", "256", "--window", "128"},
           {"quantize", model.string(), "--output", (folder / "r.cmf").string()}}) {
    const auto result = expect_exit(0, command);
    EXPECT_NE(result.err.find("rope_theta 90000"), std::string::npos) << command.front() << result.err;
    EXPECT_NE(result.err.find("rope_theta says 10000"), std::string::npos) << command.front();
  }
  EXPECT_EQ(header_of(file)["arch"]["rope_theta"], 90000.0);
}

TEST(Guards, a_recipe_that_json_cannot_hold_is_refused_before_the_work) {
  const fs::path folder = scratch_dir("guards-utf8");
  const fs::path text = folder / "t\xff.txt";
  fs::copy_file(eval_text(), text);
  const std::string recipe = (folder / "r.json").string();
  const auto result = expect_exit(2, {"gptq", tiny_model(), "--output", (folder / "o.cmf").string(), "--calib", text.string(),
                                      "--recipe-out", recipe, "--device", "cpu"});
  EXPECT_NE(result.err.find("--calib"), std::string::npos) << result.err;
  EXPECT_FALSE(fs::exists(recipe));
  EXPECT_FALSE(fs::exists(folder / "o.cmf"));
}

}  // namespace cortiq::test
