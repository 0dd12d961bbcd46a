// Models of which not everything can be quantized as asked: what is left is named, and changes the exit code or label.
#include <cstring>
#include <filesystem>
#include <fstream>

#include "e2e.hpp"

namespace cortiq::test {
namespace fs = std::filesystem;
using nlohmann::json;

namespace {

std::vector<std::string> quantize(const fs::path& in, const fs::path& out, const std::string& codec,
                                  std::vector<std::string> extra = {}) {
  std::vector<std::string> arguments{"quantize", in.string(), "--output", out.string(), "--codec", codec};
  arguments.insert(arguments.end(), extra.begin(), extra.end());
  return arguments;
}

/// The bundled model with the last 16 channels of its mlp cut off; returns the new width.
std::int64_t narrow_model(const fs::path& folder) {
  fs::copy(tiny_model(), folder);
  auto config = json::parse(std::ifstream(folder / "config.json"));
  const std::int64_t width = config["intermediate_size"].get<std::int64_t>() - 16;
  config["intermediate_size"] = width;
  std::ofstream(folder / "config.json") << config;
  std::ifstream stream(folder / "model.safetensors", std::ios::binary);
  const std::string file{std::istreambuf_iterator<char>(stream), {}};
  std::uint64_t length = 0;
  std::memcpy(&length, file.data(), sizeof length);
  auto header = json::parse(file.substr(8, length));
  std::string data;
  for (auto& [name, entry] : header.items()) {
    if (name == "__metadata__") continue;
    const std::size_t begin = entry["data_offsets"][0];
    const std::size_t end = entry["data_offsets"][1];
    const std::string bytes = file.substr(8 + length + begin, end - begin);
    const std::size_t start = data.size();
    const bool mlp = name.find("mlp.") != std::string::npos;
    const bool down = name.find("down_proj") != std::string::npos;
    const std::size_t rows = mlp && down ? entry["shape"][0].get<std::size_t>() : 1;
    const auto old = static_cast<std::size_t>(width) + 16;
    for (std::size_t r = 0; r < rows; ++r) {
      const std::size_t whole = bytes.size() / rows;
      data += bytes.substr(r * whole, mlp ? whole / old * static_cast<std::size_t>(width) : whole);
    }
    if (mlp) entry["shape"][down ? 1 : 0] = width;
    entry["data_offsets"] = {start, data.size()};
  }
  const std::string text = header.dump();
  length = text.size();
  std::ofstream out(folder / "model.safetensors", std::ios::binary | std::ios::trunc);
  out.write(reinterpret_cast<const char*>(&length), sizeof length);
  out << text << data;
  return width;
}

bool says(const ProgramResult& result, const std::string& part) { return result.err.find(part) != std::string::npos; }

}  // namespace

TEST(Partial, rounding_a_model_that_is_quantized_already_is_refused) {
  const fs::path folder = scratch_dir("partial-all");
  expect_exit(0, quantize(tiny_model(), folder / "q4.cmf", "q4tp"));
  const auto result = expect_exit(3, quantize(folder / "q4.cmf", folder / "q8.cmf", "q8"));
  EXPECT_TRUE(says(result, "quantized already")) << result.err;
  EXPECT_FALSE(fs::exists(folder / "q8.cmf"));
}

TEST(Partial, a_few_matrices_rounded_later_leave_label_and_records_of_the_others) {
  const fs::path folder = scratch_dir("partial-some");
  short_gptq(folder / "g.cmf", {"--tensor-quant", "*layers.0.mlp.up_proj*=f16"});
  const auto before = header_of(folder / "g.cmf");
  const auto result = expect_exit(0, quantize(folder / "g.cmf", folder / "o.cmf", "q8"));
  EXPECT_TRUE(says(result, "quantized already and stay as they are: ")) << result.err;
  EXPECT_TRUE(says(result, "model.layers.1.mlp.up_proj.weight (q4tp)")) << result.err;
  const auto after = header_of(folder / "o.cmf");
  EXPECT_EQ(after["quant_type"], "Q4_BLOCK");
  EXPECT_EQ(after["provenance"]["weight_quant"], "q4tp");
  EXPECT_EQ(after["provenance"]["gptq"], before["provenance"]["gptq"]);
  const auto was = tensor_hashes(folder / "g.cmf");
  for (const auto& [name, value] : tensor_hashes(folder / "o.cmf")) {
    EXPECT_EQ(value == was.at(name), name != "model.layers.0.mlp.up_proj.weight") << name << value;
  }
}

TEST(Partial, most_matrices_rounded_later_give_the_label_and_keep_the_record_of_the_rest) {
  const fs::path folder = scratch_dir("partial-most");
  short_gptq(folder / "g.cmf", {"--include", "*layers.0.mlp.up_proj*", "--tensor-quant", "*layers.0.mlp.up_proj*=q4tp",
                                "--tensor-quant", "*=f16"});
  const auto before = header_of(folder / "g.cmf");
  expect_exit(0, quantize(folder / "g.cmf", folder / "o.cmf", "q8"));
  const auto after = header_of(folder / "o.cmf");
  EXPECT_EQ(after["quant_type"], "Q8_ROW");
  EXPECT_EQ(after["provenance"]["weight_quant"], "q8");
  EXPECT_EQ(after["provenance"]["gptq"], before["provenance"]["gptq"]);
}

TEST(Partial, matrices_whose_width_does_not_fit_are_copied_named_and_counted_as_missed) {
  const fs::path folder = scratch_dir("partial-width");
  const std::int64_t width = narrow_model(folder / "model");
  std::vector<std::string> command{"gptq",     (folder / "model").string(), "--output", (folder / "o.cmf").string(),
                                   "--tokens", "512",  "--window", "128", "--device", "cpu",
                                   "--report", (folder / "r.json").string()};
  const auto result = expect_exit(3, command);
  const std::string name = "model.layers.0.mlp.down_proj.weight";
  EXPECT_TRUE(says(result, name + " (width " + std::to_string(width) + ", copied)")) << result.err;
  EXPECT_TRUE(says(result, "missed: " + name + " was copied: width is not a multiple of 32")) << result.err;
  const auto report = json::parse(std::ifstream(folder / "r.json"));
  std::int64_t missed = 0;
  for (const auto& tensor : report["tensors"]) {
    if (!tensor.value("missed", false)) continue;
    ++missed;
    EXPECT_NE(tensor["name"].get<std::string>().find("down_proj"), std::string::npos);
    EXPECT_EQ(tensor["action"], "copied");
  }
  EXPECT_GT(missed, 0);
  EXPECT_EQ(report["missed"], missed);
  command.insert(command.end(), {"--max-missed", std::to_string(missed)});
  expect_exit(0, command);
  // Nothing else to quantize: refused, with the reason.
  fs::remove(folder / "o.cmf");
  command.insert(command.end(), {"--include", "*down_proj*"});
  const auto none = expect_exit(3, command);
  EXPECT_TRUE(says(none, "(width " + std::to_string(width) + ", copied)")) << none.err;
  EXPECT_FALSE(fs::exists(folder / "o.cmf"));
}

}  // namespace cortiq::test
