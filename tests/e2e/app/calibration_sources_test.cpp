// Conversations and teacher data as calibration sources.
#include <fstream>

#include "cortiq/calib/hessian_cache.hpp"
#include "e2e.hpp"

namespace cortiq::test {
namespace fs = std::filesystem;
using nlohmann::json;

class CalibrationSources : public testing::Test {
 protected:
  void SetUp() override { folder_ = scratch_dir("calibration-sources"); }

  /// The bundled model with this chat template.
  std::string model_with(const std::string& chat_template) {
    const fs::path model = folder_ / "model";
    fs::copy(tiny_model(), model);
    json config = json::parse(read_file(model / "tokenizer_config.json"));
    config["chat_template"] = chat_template;
    fs::remove(model / "tokenizer_config.json");
    std::ofstream(model / "tokenizer_config.json") << config.dump();
    return model.string();
  }
  std::string path(const std::string& name) const { return (folder_ / name).string(); }
  ProgramResult capture(const std::string& model, const std::string& calib, const std::string& out,
                        int code = 0, const std::vector<std::string>& extra = {}) {
    std::vector<std::string> arguments{"hessians", "capture", model,      path(out), "--calib",
                                       calib,      "--tokens", "100000", "--window", "128"};
    arguments.insert(arguments.end(), extra.begin(), extra.end());
    return expect_exit(code, arguments);
  }
  fs::path folder_;
};

TEST_F(CalibrationSources, conversations_calibrate_as_the_text_that_the_template_makes_of_them) {
  const json expected = json::parse(read_file(data_dir() / "chat/expected.json"))["llama3"];
  // Tools are rendered in the order of their keys.
  const auto conversations =
      nlohmann::ordered_json::parse(read_file(data_dir() / "chat/conversations.json"));
  // The special tokens of the expected texts are not those of the bundled model.
  std::string source = read_file(data_dir() / "chat/llama3.jinja");
  source.replace(source.find("bos_token"), 9, "'<s>'");
  const std::string model = model_with(source);
  std::ofstream lines(path("chat.jsonl"));
  std::ofstream text(path("chat.txt"));
  for (const char* name : {"short", "system", "unicode", "tools", "parts"}) {
    lines << conversations[name].dump() << "\n";
    text << expected[name]["text"].get<std::string>();
  }
  lines.close();
  text.close();
  capture(model, path("chat.jsonl"), "a.hess");
  capture(model, path("chat.txt"), "b.hess");
  EXPECT_TRUE(same_bytes(path("a.hess"), path("b.hess")));
  // The CMF file carries the template.
  expect_exit(0, {"convert", model, path("model.cmf"), "--quiet"});
  capture(path("model.cmf"), path("chat.jsonl"), "c.hess");
  EXPECT_TRUE(same_bytes(path("a.hess"), path("c.hess")));
}

TEST_F(CalibrationSources, conversations_that_the_template_refuses_are_named) {
  std::ofstream(path("chat.jsonl"))
      << "[{\"role\":\"user\",\"content\":\"several words of text\"}]\n"
         "[{\"role\":\"nobody\",\"content\":\"x\"}]\n";
  const std::string model = model_with(
      "{% for m in messages %}{% if m.role != 'user' %}{{ raise_exception('only users') }}"
      "{% endif %}{{ m.content }}{% endfor %}");
  const ProgramResult result = capture(model, path("chat.jsonl"), "a.hess");
  EXPECT_NE(result.err.find("only users"), std::string::npos) << result.err;
  EXPECT_NE(result.err.find("lines 2"), std::string::npos) << result.err;
}

TEST_F(CalibrationSources, a_model_without_a_usable_template_takes_no_conversations) {
  std::ofstream(path("chat.jsonl")) << "[{\"role\":\"user\",\"content\":\"several words\"}]\n";
  const ProgramResult none = capture(tiny_model(), path("chat.jsonl"), "a.hess", 1);
  EXPECT_NE(none.err.find("no chat template"), std::string::npos) << none.err;
  const std::string model = model_with("{% include 'x' %}");
  const ProgramResult unknown = capture(model, path("chat.jsonl"), "a.hess", 1);
  EXPECT_NE(unknown.err.find("chat template: line 1: the tag {% include"), std::string::npos)
      << unknown.err;
  // Other texts do not need it.
  std::ofstream(path("plain.jsonl")) << "{\"text\":\"several words of plain text\"}\n";
  capture(model, path("plain.jsonl"), "a.hess");
}

TEST_F(CalibrationSources, teacher_data_gives_windows_that_end_with_its_records) {
  const fs::path set = golden_dir() / "calibtext/sample.tdata";
  if (!fs::exists(set)) GTEST_SKIP() << "no golden folder calibtext";
  capture(tiny_model(), set.string() + ":all", "all.hess");
  const auto identity = calib::HessianCache::open(path("all.hess")).identity();
  EXPECT_EQ(identity.value().tokens, 359);
  // Splits are sources like others, and mix.
  expect_exit(0, {"hessians", "capture", tiny_model(), path("two.hess"), "--calib",
                  set.string() + ":train=1", "--calib", set.string() + ":val=3", "--tokens", "100",
                  "--window", "128", "--verify-tdata", "off"});
  const auto mixed = calib::HessianCache::open(path("two.hess")).identity().value();
  EXPECT_EQ(mixed.sources[0].tokens_used, 25);
  EXPECT_EQ(mixed.sources[1].tokens_used, 75);
  const ProgramResult bad = capture(tiny_model(), set.string() + ":half", "x.hess", 2);
  EXPECT_NE(bad.err.find("expected train, val, test or all"), std::string::npos) << bad.err;
  const ProgramResult idle =
      capture(tiny_model(), eval_text(), "x.hess", 2, {"--verify-tdata", "on"});
  EXPECT_NE(idle.err.find("--verify-tdata"), std::string::npos) << idle.err;
  // A number behind the selector is a weight, which is said aloud.
  const ProgramResult weight =
      capture(tiny_model(), set.string() + ":all=0.5", "x.hess", 0, {"--quiet"});
  EXPECT_NE(weight.err.find("for this share of the records write"), std::string::npos)
      << weight.err;
  EXPECT_NE(weight.err.find("has no effect"), std::string::npos) << weight.err;
  fs::remove(path("x.hess"));
  expect_exit(2, {"hessians", "capture", tiny_model(), path("x.hess"), "--calib",
                  eval_text() + "=1e308", "--calib", set.string() + "=1e308"});
  fs::copy(set, folder_ / "foreign.tdata");
  json manifest = json::parse(read_file(set / "manifest.json"));
  manifest["tokenizer"] = {{"vocab_size", 2048}, {"vocab_sha256", "00ff"}};
  fs::remove(folder_ / "foreign.tdata/manifest.json");
  std::ofstream(folder_ / "foreign.tdata/manifest.json") << manifest.dump();
  const ProgramResult spelled = capture(tiny_model(), path("foreign.tdata"), "x.hess");
  EXPECT_NE(spelled.err.find("sha256 00ff in the teacher data"), std::string::npos) << spelled.err;
  manifest["tokenizer"]["vocab_size"] = 2049;
  std::ofstream(folder_ / "foreign.tdata/manifest.json") << manifest.dump();
  const ProgramResult foreign = capture(tiny_model(), path("foreign.tdata"), "y.hess", 3);
  EXPECT_NE(foreign.err.find("2049 tokens, sha256 00ff in the teacher data; 2048 tokens, sha256 "),
            std::string::npos)
      << foreign.err;
  EXPECT_FALSE(fs::exists(path("y.hess")));
  fs::copy(set, folder_ / "bad.tdata");
  fs::permissions(folder_ / "bad.tdata/tokens.bin", fs::perms::owner_all);
  std::fstream(folder_ / "bad.tdata/tokens.bin", std::ios::in | std::ios::out | std::ios::binary)
      << "x";
  const ProgramResult damaged = capture(tiny_model(), path("bad.tdata"), "x.hess", 1);
  EXPECT_NE(damaged.err.find("sha256 mismatch"), std::string::npos) << damaged.err;
}

}  // namespace cortiq::test
