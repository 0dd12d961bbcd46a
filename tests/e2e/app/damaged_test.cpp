// Damage that recorded hashes show: every command refuses it, with one clear line, and writes nothing.
#include <array>
#include <filesystem>
#include <fstream>

#include "e2e.hpp"

namespace cortiq::test {
namespace fs = std::filesystem;

namespace {

std::string read_bytes(const fs::path& path) {
  std::ifstream stream(path, std::ios::binary);
  return {std::istreambuf_iterator<char>(stream), {}};
}

void write_bytes(const fs::path& path, const std::string& bytes) {
  std::ofstream(path, std::ios::binary | std::ios::trunc) << bytes;
}

/// The bundled model as CMF with one character of a section changed: `from` becomes `to` at its first place.
std::string damaged(const fs::path& folder, const std::string& from, const std::string& to) {
  const fs::path model = folder / "m.cmf";
  expect_exit(0, {"convert", tiny_model(), model.string(), "--quiet"});
  std::string bytes = read_bytes(model);
  const std::size_t at = bytes.find(from);
  EXPECT_NE(at, std::string::npos) << from;
  write_bytes(model, bytes.replace(at, from.size(), to));
  return model.string();
}

std::size_t count(const std::string& text, const std::string& part) {
  std::size_t found = 0;
  for (std::size_t at = text.find(part); at != std::string::npos; at = text.find(part, at + 1)) ++found;
  return found;
}

/// Commands that read the whole model, and what they would write.
std::vector<std::vector<std::string>> commands(const std::string& model, const fs::path& output) {
  const std::string out = output.string();
  return {{"gptq", model, "--output", out, "--tokens", "512", "--window", "128", "--device", "cpu"},
          {"quantize", model, "--output", out},
          {"ppl", model, eval_text(), "--tokens", "512"},
          {"kld", model, model, eval_text(), "--tokens", "512"},
          {"hessians", "capture", model, out, "--tokens", "512", "--window", "128"}};
}

void expect_one_mismatch(const ProgramResult& result, const std::string& where) {
  EXPECT_EQ(count(result.err, where + ": hash mismatch (stored "), 1U) << result.err;
  EXPECT_EQ(count(result.err, ".cmf: "), 1U) << result.err;  // the place is said once
  EXPECT_EQ(count(result.err, "gptq and quantize take it as it is with --sanitize"), 1U) << result.err;
}

}  // namespace

TEST(Damaged, a_changed_header_vocabulary_or_directory_is_refused_by_every_command) {
  const fs::path folder = scratch_dir("damaged-sections");
  const std::vector<std::array<std::string, 3>> cases{
      {"\"rope_theta\":5", "\"rope_theta\":9", "header"},
      {"\"added_tokens\"", "\"addEd_tokens\"", "vocab section"},
      {"model.layers.0.mlp.up_proj.weight", "model.layers.0.mlp.Up_proj.weight", "directory"}};
  for (const auto& [from, to, section] : cases) {
    const std::string model = damaged(folder, from, to);
    for (const auto& command : commands(model, folder / "o")) expect_one_mismatch(expect_exit(1, command), section);
    EXPECT_FALSE(fs::exists(folder / "o"));
    const auto verify = expect_exit(1, {"verify", model});
    EXPECT_EQ(count(verify.out, section + ": hash mismatch"), 1U) << verify.out;
    const auto inspect = expect_exit(0, {"inspect", model});
    EXPECT_EQ(count(inspect.out, "warning: " + model + ": " + section + ": hash mismatch"), 1U) << inspect.out;
    const auto json = nlohmann::json::parse(expect_exit(0, {"inspect", model, "--json"}).out);
    EXPECT_EQ(json["problems"].size(), 1U);
  }
  // What needs no vocabulary does not read it.
  const std::string model = damaged(folder, cases[1][0], cases[1][1]);
  expect_exit(0, {"compare", model, model, "--quiet"});
}

TEST(Damaged, sanitizing_takes_a_changed_header_as_it_is_and_says_so) {
  const fs::path folder = scratch_dir("damaged-sanitize");
  const std::string model = damaged(folder, "\"rope_theta\":5", "\"rope_theta\":9");
  const std::string out = (folder / "o.cmf").string();
  const auto result = expect_exit(0, {"quantize", model, "--output", out, "--sanitize"});
  EXPECT_EQ(count(result.err, model + ": header: hash mismatch"), 1U) << result.err;
  const auto gptq = expect_exit(0, {"gptq", model, "--output", (folder / "g.cmf").string(), "--tokens", "512", "--window",
                                    "128", "--device", "cpu", "--sanitize", "--dry-run"});
  EXPECT_EQ(count(gptq.err, model + ": header: hash mismatch"), 1U) << gptq.err;
}

TEST(Damaged, a_changed_payload_is_named_once_by_every_command) {
  const fs::path folder = scratch_dir("damaged-payload");
  const fs::path model = folder / "m.cmf";
  expect_exit(0, {"convert", tiny_model(), model.string(), "--quiet"});
  const auto json = nlohmann::json::parse(expect_exit(0, {"inspect", model.string(), "--json"}).out);
  const std::string intact = read_bytes(model);
  for (const std::string name : {"model.embed_tokens.weight", "model.layers.1.mlp.up_proj.weight", "model.norm.weight"}) {
    std::string bytes = intact;
    for (const auto& tensor : json["tensors"]) {
      if (tensor["name"] == name) bytes[tensor["offset"].get<std::size_t>()] ^= 1;
    }
    write_bytes(model, bytes);
    for (const auto& command : commands(model.string(), folder / "o"))
      expect_one_mismatch(expect_exit(1, command), "tensor " + name);
    EXPECT_FALSE(fs::exists(folder / "o"));
    expect_one_mismatch(expect_exit(1, {"compare", model.string(), model.string()}), "tensor " + name);
  }
}

TEST(Damaged, an_empty_tokenizer_file_is_called_empty) {
  const fs::path folder = scratch_dir("damaged-tokenizer");
  fs::copy(tiny_model(), folder / "model");
  write_bytes(folder / "model/tokenizer.json", "");
  const auto result = expect_exit(1, {"ppl", (folder / "model").string(), eval_text(), "--tokens", "512"});
  EXPECT_NE(result.err.find("tokenizer.json: is empty"), std::string::npos) << result.err;
  fs::remove(folder / "model/tokenizer.json");
  const auto none = expect_exit(1, {"ppl", (folder / "model").string(), eval_text(), "--tokens", "512"});
  EXPECT_NE(none.err.find("holds no tokenizer"), std::string::npos) << none.err;
}

}  // namespace cortiq::test
