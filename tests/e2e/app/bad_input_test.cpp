// Refusals: exit code, a message that names file, tensor or option, and nothing left under the
// output name.
#include <sys/mount.h>
#include <unistd.h>

#include <cstring>
#include <fstream>

#include "cortiq/support/half.hpp"
#include "e2e.hpp"

namespace cortiq::test {
namespace fs = std::filesystem;
namespace {

void expect_refusal(int code, const std::vector<std::string>& arguments,
                    const std::vector<std::string>& words, const fs::path& output) {
  const ProgramResult result = expect_exit(code, arguments);
  for (const std::string& word : words) {
    EXPECT_NE(result.err.find(word), std::string::npos)
        << "message lacks '" << word << "': " << result.err;
  }
  EXPECT_FALSE(fs::exists(output)) << output;
  EXPECT_FALSE(fs::exists(output.string() + ".partial")) << output;
}

std::vector<std::string> gptq(const std::string& input, const fs::path& output,
                              std::vector<std::string> extra = {}) {
  std::vector<std::string> arguments{"gptq", input,      "--output", output.string(), "--window",
                                     "256",  "--tokens", "1024",     "--quiet"};
  arguments.insert(arguments.end(), extra.begin(), extra.end());
  return arguments;
}

void write(const fs::path& path, const std::string& text) {
  std::ofstream(path, std::ios::binary) << text;
}

/// A copy of the bundled model as CMF with one f16 of `tensor` set to NaN. Hashes are not checked
/// at open.
fs::path model_with_nan(const fs::path& folder, const std::string& tensor) {
  const fs::path path = folder / "nan.cmf";
  expect_exit(0, {"convert", tiny_model(), path.string(), "--quiet"});
  const auto json = nlohmann::json::parse(expect_exit(0, {"inspect", path.string(), "--json"}).out);
  for (const auto& entry : json["tensors"]) {
    if (entry["name"] != tensor) continue;
    std::fstream file(path, std::ios::in | std::ios::out | std::ios::binary);
    file.seekp(entry["offset"].get<std::int64_t>() + 2 * 131);
    file.write("\x00\x7e", 2);
  }
  return path;
}

}  // namespace

TEST(BadInput, usage_errors_exit_with_2_and_name_the_option) {
  const fs::path folder = scratch_dir("bad-usage");
  const fs::path output = folder / "o.cmf";
  expect_refusal(2, {"gptq"}, {"INPUT"}, output);
  expect_refusal(2, {"frobnicate"}, {}, output);
  expect_refusal(2, gptq(tiny_model(), output, {"--no-such-option"}), {"--no-such-option"}, output);
  expect_refusal(2, gptq(tiny_model(), output, {"--codec", "q5"}), {"q5", "q4tp"}, output);
  expect_refusal(2, gptq(tiny_model(), output, {"--codec", "q8"}), {"q8", "quantize"}, output);
  expect_refusal(2, gptq(tiny_model(), output, {"--tensor-quant", "*=q9"}), {"q9"}, output);
  expect_refusal(2, gptq(tiny_model(), output, {"--tensor-quant", "nothing.here=q8"}),
                 {"nothing.here"}, output);
  expect_refusal(2, gptq(tiny_model(), output, {"--skip", "not_there"}), {"not_there"}, output);
  expect_refusal(2, gptq(tiny_model(), output, {"--include", "not_there*"}), {"not_there*"},
                 output);
  expect_refusal(2, gptq(tiny_model(), output, {"--order", "act", "--rung", "sim"}),
                 {"--rung", "act"}, output);
  expect_refusal(2, gptq(tiny_model(), output, {"--q2tp-rule", "cortiq"}), {"--q2tp-rule"}, output);
  expect_refusal(2, gptq(tiny_model(), output, {"--hessians-force"}), {"--hessians-force"}, output);
  expect_refusal(2, gptq(tiny_model(), output, {"--report", (folder / "r.txt").string()}),
                 {"r.txt", ".json"}, output);
  expect_refusal(2, gptq(tiny_model(), output, {"--calib", "a=nan"}), {"nan"}, output);
}

TEST(BadInput, corpora_that_cannot_serve_are_refused) {
  const fs::path folder = scratch_dir("bad-corpus");
  const fs::path output = folder / "o.cmf";
  write(folder / "empty.txt", "");
  write(folder / "short.txt", "Hi");
  write(folder / "bad.json", "[\"a\", ");
  expect_refusal(1, gptq(tiny_model(), output, {"--calib", (folder / "missing.txt").string()}),
                 {"missing.txt"}, output);
  expect_refusal(1, gptq(tiny_model(), output, {"--calib", (folder / "bad.json").string()}),
                 {"bad.json"}, output);
  const ProgramResult empty =
      run_program(gptq(tiny_model(), output, {"--calib", (folder / "empty.txt").string()}));
  EXPECT_TRUE(empty.exit_code == 1 || empty.exit_code == 3) << empty.err;
  EXPECT_NE(empty.err.find("empty.txt"), std::string::npos) << empty.err;
  EXPECT_FALSE(fs::exists(output));
  // A text below the budget is used, with both numbers in a warning.
  write(folder / "some.txt", read_file(eval_text()).substr(0, 1500));
  const ProgramResult some =
      expect_exit(0, gptq(tiny_model(), output, {"--calib", (folder / "some.txt").string()}));
  EXPECT_NE(some.err.find("1024"), std::string::npos) << some.err;
}

TEST(BadInput, too_few_tokens_for_q2tp_and_windows_beyond_the_model_are_refused_with_3) {
  const fs::path folder = scratch_dir("bad-guards");
  const fs::path output = folder / "o.cmf";
  expect_refusal(3, gptq(tiny_model(), output, {"--codec", "q2tp"}),
                 {"32768", "--allow-few-tokens"}, output);
  expect_refusal(3,
                 {"gptq", tiny_model(), "--output", output.string(), "--window", "1025", "--quiet"},
                 {"1025", "1024"}, output);
  expect_refusal(3, gptq(tiny_model(), output, {"--mem-gb", "0.001"}), {"--mem-gb"}, output);
}

TEST(BadInput, a_nan_weight_is_named_and_can_be_sanitized) {
  const fs::path folder = scratch_dir("bad-nan");
  const fs::path output = folder / "o.cmf";
  for (const char* tensor : {"model.layers.2.mlp.up_proj.weight", "model.embed_tokens.weight"}) {
    const fs::path model = model_with_nan(folder, tensor);
    expect_refusal(1, gptq(model.string(), output), {tensor, "hash mismatch", "--sanitize"}, output);
    expect_refusal(1, {"quantize", model.string(), "--output", output.string(), "--quiet"},
                   {tensor}, output);
    expect_refusal(1, {"verify", model.string()}, {"damaged"}, output);
    const std::string report = (folder / "r.json").string();
    expect_exit(0, gptq(model.string(), output, {"--sanitize", "--report", report}));
    const auto json = nlohmann::json::parse(read_file(report));
    for (const auto& entry : json["tensors"]) {
      EXPECT_EQ(entry.value("sanitized", 0), entry["name"] == tensor ? 1 : 0) << entry["name"];
    }
    EXPECT_EQ(json["missed"], 0);
    fs::remove(output);
  }
}

TEST(BadInput, a_nan_in_a_folder_is_named_and_can_be_sanitized) {
  const fs::path folder = scratch_dir("bad-nan-folder");
  const fs::path output = folder / "o.cmf";
  const fs::path model = folder / "model";
  fs::copy(tiny_model(), model, fs::copy_options::recursive);
  const fs::path weights = model / "model.safetensors";
  fs::permissions(weights, fs::perms::owner_all);
  std::string bytes = read_file(weights);
  std::uint64_t header = 0;
  std::memcpy(&header, bytes.data(), sizeof(header));
  const auto json = nlohmann::json::parse(bytes.substr(8, header));
  const std::string tensor = "model.layers.1.self_attn.q_proj.weight";
  const std::uint64_t at =
      8 + header + json[tensor]["data_offsets"][0].get<std::uint64_t>() + 2 * 77;
  bytes.replace(at, 2, std::string("\x00\x7c", 2));  // infinity
  write(weights, bytes);
  expect_refusal(1, gptq(model.string(), output), {tensor, "inf"}, output);
  expect_exit(0, gptq(model.string(), output, {"--sanitize"}));
  fs::remove(output);
  expect_exit(0,
              {"quantize", model.string(), "--sanitize", "--output", output.string(), "--quiet"});
}

TEST(BadInput, models_that_are_missing_or_damaged_are_refused_with_1) {
  const fs::path folder = scratch_dir("bad-model");
  const fs::path output = folder / "o.cmf";
  expect_refusal(1, gptq((folder / "none.cmf").string(), output), {"none.cmf"}, output);
  write(folder / "text.cmf", std::string(4096, 'x'));
  expect_refusal(1, gptq((folder / "text.cmf").string(), output), {"text.cmf"}, output);
  fs::create_directories(folder / "empty");
  expect_refusal(1, gptq((folder / "empty").string(), output), {"config.json"}, output);
  const fs::path cut = folder / "cut";
  fs::copy(tiny_model(), cut, fs::copy_options::recursive);
  fs::permissions(cut / "model.safetensors", fs::perms::owner_all);
  fs::resize_file(cut / "model.safetensors", 1000000);
  expect_refusal(1, gptq(cut.string(), output), {"model.safetensors"}, output);
  fs::remove(cut / "model.safetensors");
  expect_refusal(1, gptq(cut.string(), output), {"safetensors"}, output);
  auto config = nlohmann::json::parse(read_file(fs::path(tiny_model()) / "config.json"));
  config["model_type"] = "nonesuch";
  fs::permissions(cut / "config.json", fs::perms::owner_all);
  write(cut / "config.json", config.dump());
  expect_refusal(1, gptq(cut.string(), output), {"nonesuch"}, output);
}

TEST(BadInput, an_output_that_is_an_input_is_refused_by_any_path) {
  const fs::path folder = scratch_dir("bad-same");
  const fs::path model = folder / "m.cmf";
  expect_exit(0, {"convert", tiny_model(), model.string(), "--quiet"});
  const std::string before = read_file(model);
  fs::create_symlink(model, folder / "soft.cmf");
  fs::create_hard_link(model, folder / "hard.cmf");
  for (const fs::path& path :
       {model, folder / "soft.cmf", folder / "hard.cmf", folder / "." / "m.cmf"}) {
    const ProgramResult result = expect_exit(2, gptq(model.string(), path));
    EXPECT_NE(result.err.find("is the input"), std::string::npos) << result.err;
    expect_exit(2, {"quantize", model.string(), "--output", path.string(), "--quiet"});
  }
  expect_exit(2,
              gptq(model.string(), folder / "o.cmf", {"--hessians", (folder / "o.cmf").string()}));
  expect_exit(2, gptq(model.string(), folder / "o.cmf",
                      {"--calib", eval_text(), "--report", (folder / "o.cmf").string()}));
  expect_exit(2, gptq(model.string(), folder / "o.cmf", {"--hessians", model.string()}));
  EXPECT_EQ(read_file(model), before);
}

TEST(BadInput, damaged_caches_are_refused) {
  const fs::path folder = scratch_dir("bad-cache");
  const fs::path output = folder / "o.cmf";
  write(folder / "bad.hess", "CMFHESS2........");
  expect_refusal(1, gptq(tiny_model(), output, {"--hessians", (folder / "bad.hess").string()}),
                 {"bad.hess"}, output);
  const std::string good = (folder / "good.hess").string();
  expect_exit(0, gptq(tiny_model(), output, {"--hessians", good}));
  fs::remove(output);
  fs::remove(good + ".json");
  const std::string bytes = read_file(good);
  write(good, bytes.substr(0, bytes.size() - 9));
  expect_refusal(1, gptq(tiny_model(), output, {"--hessians", good}), {"good.hess"}, output);
}

TEST(BadInput, missed_tensors_change_the_exit_code_beyond_the_allowed_number) {
  const fs::path folder = scratch_dir("bad-missed");
  const fs::path output = folder / "o.cmf";
  const std::string cache = (folder / "part.hess").string();
  expect_exit(0, gptq(tiny_model(), output, {"--hessians", cache, "--include", "*.mlp.*"}));
  fs::remove(output);
  expect_refusal(3, gptq(tiny_model(), output, {"--hessians", cache}),
                 {"q_proj", "--allow-missing-hessians"}, output);
  expect_exit(0, gptq(tiny_model(), output, {"--hessians", cache, "--allow-missing-hessians"}));
  EXPECT_EQ(header_of(output)["provenance"]["gptq"]["rtn_fallback"].size(), 16U);
  EXPECT_EQ(header_of(output)["provenance"]["gptq"]["linears"], 12);
}

TEST(BadInput, a_folder_without_write_permission_is_refused_before_the_work) {
  const fs::path folder = scratch_dir("bad-permission");
  fs::permissions(folder, fs::perms::owner_read | fs::perms::owner_exec | fs::perms::others_read |
                              fs::perms::others_exec);
  RunOptions options;
  options.as_nobody = ::geteuid() == 0;
  const ProgramResult result = expect_exit(1, gptq(tiny_model(), folder / "o.cmf"), options);
  EXPECT_NE(result.err.find("permission"), std::string::npos) << result.err;
  EXPECT_TRUE(fs::is_empty(folder));
  fs::permissions(folder, fs::perms::owner_all);
}

TEST(BadInput, a_full_disk_is_told_with_numbers_and_leaves_nothing) {
  const fs::path folder = scratch_dir("bad-full");
  if (::mount("tmpfs", folder.c_str(), "tmpfs", 0, "size=300k") != 0)
    GTEST_SKIP() << "cannot mount a small tmpfs here";
  expect_refusal(3, gptq(tiny_model(), folder / "o.cmf"), {"o.cmf"}, folder / "o.cmf");
  expect_refusal(3, {"convert", tiny_model(), (folder / "c.cmf").string(), "--quiet"}, {"c.cmf"},
                 folder / "c.cmf");
  const fs::path output = scratch_dir("bad-full-cache") / "o.cmf";
  const ProgramResult cache =
      run_program(gptq(tiny_model(), output, {"--hessians", (folder / "h.hess").string()}));
  EXPECT_NE(cache.exit_code, 0);
  EXPECT_NE(cache.err.find("h.hess"), std::string::npos) << cache.err;
  EXPECT_FALSE(fs::exists(output));
  // What is spilled counts, and the plan refuses as the run does.
  const std::vector<std::string> spill{"--spill", folder.string()};
  std::vector<std::string> dry = spill;
  dry.emplace_back("--dry-run");
  for (const auto& options : {spill, dry}) {
    // 1024 tokens of 128 floats.
    expect_refusal(3, gptq(tiny_model(), output, options),
                   {"hidden states", "need 524288 bytes", "--spill"}, output);
  }
  expect_refusal(3, gptq(tiny_model(), folder / "o.cmf", {"--dry-run"}),
                 {"not enough space on disk: output", "o.cmf"}, folder / "o.cmf");
  expect_refusal(3, {"quantize", tiny_model(), "--codec", "q8", "--dry-run", "--output",
                     (folder / "q.cmf").string()},
                 {"q.cmf"}, folder / "q.cmf");
  expect_refusal(3, {"hessians", "capture", tiny_model(), (folder / "h").string(), "--tokens",
                     "512"},
                 {"Hessian cache"}, folder / "h");
  EXPECT_TRUE(fs::is_empty(folder));
  ::umount(folder.c_str());
}

}  // namespace cortiq::test
