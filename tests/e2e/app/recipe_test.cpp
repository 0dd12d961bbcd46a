// --recipe and --recipe-out.
#include <fstream>

#include "e2e.hpp"

namespace cortiq::test {
namespace fs = std::filesystem;
using nlohmann::json;

class Recipe : public testing::Test {
 protected:
  void SetUp() override { folder_ = scratch_dir("recipe"); }
  std::string path(const std::string& name) const { return (folder_ / name).string(); }
  std::string write(const std::string& text) {
    std::ofstream(path("r.json")) << text;
    return path("r.json");
  }
  ProgramResult gptq(const std::string& output, const std::vector<std::string>& extra,
                     int code = 0) {
    std::vector<std::string> words{"gptq", tiny_model(), "--output", path(output), "--quiet"};
    words.insert(words.end(), extra.begin(), extra.end());
    return expect_exit(code, words);
  }
  void refused(const std::string& recipe, std::string_view part, int code = 2) {
    const ProgramResult result = gptq("refused.cmf", {"--recipe", write(recipe)}, code);
    EXPECT_NE(result.err.find(part), std::string::npos) << result.err;
    EXPECT_FALSE(fs::exists(path("refused.cmf")));
  }
  fs::path folder_;
};

TEST_F(Recipe, gives_the_same_bytes_as_the_options_it_holds) {
  const std::string recipe = write(json{
      {"description", "a test"},
      {"options",
       {{"calib", json::array({eval_text()})}, {"tokens", 2048}, {"window", "256"},
        {"q4tp-debias", true}, {"sanitize", false}, {"lambda", 0.02}, {"rung", "diag"}}},
      {"tensors",
       json::array({{{"layers", json::array({0, "2-3"})}, {"pattern", "mlp.*"}, {"codec", "q8"}},
                    {{"pattern", "*.o_proj.weight"}, {"codec", "f16"}}})}}.dump());
  gptq("recipe.cmf", {"--recipe", recipe});
  gptq("line.cmf",
       {"--calib", eval_text(), "--tokens", "2048", "--window", "256", "--q4tp-debias", "--lambda",
        "0.02", "--rung", "diag", "--tensor-quant", "model.layers.0.mlp.*=q8", "--tensor-quant",
        "model.layers.2.mlp.*=q8", "--tensor-quant", "model.layers.3.mlp.*=q8", "--tensor-quant",
        "*.o_proj.weight=f16"});
  EXPECT_TRUE(same_bytes(path("recipe.cmf"), path("line.cmf")));
  const auto tensors = tensor_hashes(path("recipe.cmf"));
  EXPECT_TRUE(tensors.at("model.layers.3.mlp.up_proj.weight").starts_with("q8_row"));
  EXPECT_TRUE(tensors.at("model.layers.1.mlp.up_proj.weight").starts_with("q4tp"));
  EXPECT_TRUE(tensors.at("model.layers.1.self_attn.o_proj.weight").starts_with("f16"));
}

TEST_F(Recipe, the_command_line_comes_first) {
  const std::string recipe =
      write(json{{"options", {{"calib", eval_text()}, {"tokens", 4096}, {"window", 256}}},
                 {"tensors", json::array({{{"pattern", "*.up_proj.weight"}, {"codec", "q8"}}})}}
                .dump());
  gptq("a.cmf", {"--recipe=" + recipe, "--tokens", "2048", "--tensor-quant",
                 "model.layers.1.mlp.up_proj.weight=f16"});
  gptq("b.cmf", {"--calib", eval_text(), "--window", "256", "--tokens", "2048", "--tensor-quant",
                 "model.layers.1.mlp.up_proj.weight=f16", "--tensor-quant", "*.up_proj.weight=q8"});
  EXPECT_TRUE(same_bytes(path("a.cmf"), path("b.cmf")));
}

TEST_F(Recipe, a_recipe_that_was_written_repeats_the_run) {
  gptq("a.cmf", {"--calib", eval_text() + "=2", "--tokens", "2048", "--window", "256", "--act-order",
                 "--skip", "", "--tensor-quant", "*.q_proj.weight=q8_2f", "--tensor-quant",
                 "*.up_proj.weight=q4", "--recipe-out", path("out.json")});
  const json written = json::parse(read_file(path("out.json")));
  EXPECT_EQ(written["options"]["tensor-quant"],
            json::array({"*.q_proj.weight=q8_2f", "*.up_proj.weight=q4"}));
  EXPECT_EQ(written["options"]["act-order"], true);
  EXPECT_FALSE(written["options"].contains("output"));
  gptq("b.cmf", {"--recipe", path("out.json"), "--recipe-out", path("again.json")});
  EXPECT_TRUE(same_bytes(path("a.cmf"), path("b.cmf")));
  EXPECT_EQ(json::parse(read_file(path("again.json"))), written);
  // Rounding has recipes too.
  expect_exit(0, {"quantize", tiny_model(), "--codec", "q4", "--tensor-quant", "*.up_proj.weight=q8",
                  "--output", path("c.cmf"), "--recipe-out", path("round.json"), "--quiet"});
  expect_exit(0, {"quantize", tiny_model(), "--recipe", path("round.json"), "--output",
                  path("d.cmf"), "--quiet"});
  EXPECT_TRUE(same_bytes(path("c.cmf"), path("d.cmf")));
}

TEST_F(Recipe, what_is_wrong_in_it_is_named) {
  refused("{", "no valid JSON", 1);
  refused("[]", "no JSON object");
  refused(R"({"options":{"tokens":512,"lambda":1,"tokens":1024}})",
          "options: key 'tokens' occurs twice", 1);
  refused(R"({"options":{},"options":{}})", "key 'options' occurs twice", 1);
  refused(R"({"tensors":[{"codec":"q8","pattern":"*","codec":"q4"}]})",
          "tensors: key 'codec' occurs twice", 1);
  refused(R"({"layers":1})", "'layers' is unknown");
  refused(R"({"options":[]})", "options is no object");
  refused(R"({"options":{"colour":"red"}})", "'colour' is no option");
  refused(R"({"options":{"output":"x.cmf"}})", "'output' is no option");
  refused(R"({"options":{"--codec":"q4tp"}})", "'--codec' is no option");
  refused(R"({"options":{"codec":"q9"}})", "q9");
  refused(R"({"options":{"tokens":"many"}})", "--tokens");
  refused(R"({"options":{"tokens":null}})", "tokens has a value");
  refused(R"({"options":{"act-order":"yes"}})", "act-order takes true or false");
  refused(R"({"tensors":{}})", "tensors is no list");
  refused(R"({"tensors":[{"pattern":"*"}]})", "entry 1 has neither a codec nor a rule");
  refused(R"({"tensors":[{"codec":"q8"}]})", "entry 1 has neither layers nor a pattern");
  refused(R"({"tensors":[{"layers":"3-1","codec":"q8"}]})", "expected a number");
  refused(R"({"tensors":[{"layers":[-1],"codec":"q8"}]})", "expected a number");
  refused(R"({"tensors":[{"pattern":"*","codec":"q8","bits":4}]})", "'bits' is unknown");
  // A pattern that matches nothing, as on the command line.
  refused(R"({"tensors":[{"layers":[9],"codec":"q8"}]})", "model.layers.9.*");
  refused(R"({"options":{"include":"*.nothing"}})", "*.nothing");
  refused(R"({"options":{"skip":"nothing,embed_tokens"}})", "--skip nothing");
  gptq("x.cmf", {"--recipe", path("absent.json")}, 1);
  gptq("x.cmf", {"--recipe", path("r.json"), "--recipe-out", path("r.json")}, 2);
  expect_exit(2, {"ppl", tiny_model(), eval_text(), "--recipe", path("r.json")});
}

TEST_F(Recipe, a_default_skip_word_may_miss) {
  // The bundled model has a tied head: no lm_head.
  gptq("a.cmf", {"--calib", eval_text(), "--tokens", "512", "--window", "256", "--skip",
                 "embed_tokens,lm_head"});
}

}  // namespace cortiq::test
