// Refusals that protect files and that name options without effect.
#include <fstream>

#include "e2e.hpp"

namespace cortiq::test {
namespace fs = std::filesystem;
namespace {

ProgramResult refused(int code, const std::vector<std::string>& extra, const std::string& word) {
  const fs::path folder = scratch_dir("refusals");
  const fs::path output = folder / "o.cmf";
  fs::remove(output);
  const ProgramResult result = short_gptq(output, extra, code);
  EXPECT_NE(result.err.find(word), std::string::npos) << result.err;
  EXPECT_FALSE(fs::exists(output));
  return result;
}

}  // namespace

TEST(Refusals, the_temporary_file_of_an_output_is_never_an_input) {
  const fs::path folder = scratch_dir("refusals-partial");
  const fs::path model = folder / "o.cmf.partial";
  expect_exit(0, {"convert", tiny_model(), model.string(), "--quiet"});
  const std::string before = read_file(model);
  const fs::path output = folder / "o.cmf";
  for (const char* command : {"gptq", "quantize"}) {
    const ProgramResult result =
        expect_exit(2, {command, model.string(), "--output", output.string(), "--quiet"});
    EXPECT_NE(result.err.find("o.cmf.partial"), std::string::npos) << result.err;
  }
  EXPECT_EQ(read_file(model), before);
  fs::rename(model, folder / "m.cmf");
  fs::create_symlink(folder / "m.cmf", model);
  (void)short_gptq(output, {}, 1);
  EXPECT_EQ(read_file(folder / "m.cmf"), before);
}

TEST(Refusals, options_without_effect_and_numbers_that_are_none) {
  refused(2, {"--lambda", "nan"}, "--lambda");
  refused(2, {"--mem-gb", "nan"}, "--mem-gb");
  refused(2, {"--hessians", ""}, "--hessians");
  refused(2, {"--allow-few-tokens"}, "--allow-few-tokens");
  refused(2, {"--min-rows", "0", "--moe-prior", "8"}, "--moe-prior");
  refused(2, {"--device", "cpu", "--vram-gb", "2"}, "--vram-gb");
  refused(2, {"--quiet", "--verbose"}, "--verbose");
  refused(2, {"--tensor-quant", "*norm*=q8"}, "--tensor-quant");
  refused(2, {"--tensor-quant", "lm_head.weight=f16"}, "tied");
  refused(2,
          {"--codec", "q2tp", "--allow-few-tokens", "--q2tp-rule-tensor", "*q_proj.weight=cortiq"},
          "--q2tp-rule-tensor");
  refused(3, {"--tensor-quant", "*down_proj.weight=q2tp"}, "--allow-few-tokens");
}

TEST(Refusals, options_without_effect_on_this_model_are_warned_of) {
  const fs::path folder = scratch_dir("refusals-idle");
  const ProgramResult result =
      short_gptq(folder / "o.cmf", {"--min-rows", "8", "--moe-prior=4", "--device", "auto",
                                    "--dry-run", "--report", (folder / "r.json").string()});
  for (const char* option : {"--min-rows", "--moe-prior", "--report"})
    EXPECT_NE(result.err.find(std::string(option) + ": has no effect"), std::string::npos)
        << option << "\n" << result.err;
  EXPECT_EQ(short_gptq(folder / "o.cmf", {"--dry-run"}).err, "");
}

TEST(Refusals, what_can_be_known_early_is_said_before_the_work) {
  const fs::path folder = scratch_dir("refusals-early");
  std::ofstream(folder / "hi.txt") << "hi";
  refused(3, {"--ppl", (folder / "hi.txt").string()}, "hi.txt");
  const std::string cache = (folder / "c.hess").string();
  refused(2, {"--hessians", cache, "--report", cache + ".json"}, "Hessian cache");
  refused(1, {"--report", std::string(300, 'r') + ".json"}, "file name");
}

TEST(Refusals, errors_are_json_where_the_log_is) {
  const ProgramResult result = refused(1, {"--json-log", "--calib", "/nonexistent.txt"}, "event");
  EXPECT_EQ(nlohmann::json::parse(result.err)["level"], "error");
}

TEST(Refusals, words_that_are_not_understood_are_json_lines_where_the_log_is_to_be) {
  const fs::path recipe = scratch_dir("refusals-json") / "r.json";
  std::ofstream(recipe) << R"({"options":{"colour":"red"}})";
  const std::vector<std::pair<std::vector<std::string>, std::string>> cases{
      {{"gptq", tiny_model(), "--colour", "--json-log"}, "--colour"},
      {{"--json-log", "gptq"}, "INPUT is required"},
      {{"gptq", tiny_model(), "--json-log", "--tokens", "many"}, "--tokens"},
      {{"--json-log"}, "subcommand"},
      {{"--json-log", "paint"}, "unknown command 'paint'"},
      {{"gptq", "--json-log", tiny_model(), "--recipe", recipe.string()}, "colour"},
      {{"ppl", tiny_model(), eval_text(), "--json-log", "--quiet", "--verbose"}, "--verbose"},
      {{"quantize", tiny_model(), "--output", "", "--json-log"}, "--output"}};
  for (const auto& [words, part] : cases) {
    const ProgramResult result = expect_exit(2, words);
    const auto json = nlohmann::json::parse(result.err, nullptr, false);
    ASSERT_TRUE(json.is_object()) << result.err;
    EXPECT_EQ(json["level"], "error");
    EXPECT_NE(json["message"].get<std::string>().find(part), std::string::npos) << result.err;
    EXPECT_EQ(std::count(result.err.begin(), result.err.end(), '\n'), 1);
    EXPECT_EQ(result.out, "");
  }
  // Help is help.
  EXPECT_NE(expect_exit(0, {"gptq", "--help", "--json-log"}).out.find("--codec"),
            std::string::npos);
}

}  // namespace cortiq::test
