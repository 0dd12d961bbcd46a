// The main job on the bundled model: files, bytes, provenance, reports, output streams.
#include "e2e.hpp"

namespace cortiq::test {
namespace fs = std::filesystem;

TEST(GptqCommand, writes_a_file_that_verifies_and_is_closer_to_the_original_than_rounding) {
  const fs::path folder = scratch_dir("gptq-main");
  const fs::path gptq = folder / "gptq.cmf";
  const fs::path rounded = folder / "rounded.cmf";
  const ProgramResult result = expect_exit(
      0, {"gptq", tiny_model(), "--output", gptq.string(), "--window", "256", "--tokens", "16384"});
  EXPECT_EQ(result.out, "✓ wrote " + gptq.string() + "\n");
  EXPECT_NE(result.err.find("built-in English corpus"), std::string::npos);
  EXPECT_EQ(result.err.find('\r'), std::string::npos)
      << "no redrawn bar where stderr is no terminal";
  EXPECT_EQ(result.err.find('\x1b'), std::string::npos);
  expect_exit(0, {"quantize", tiny_model(), "--output", rounded.string(), "--quiet"});
  expect_exit(0, {"verify", gptq.string()});
  EXPECT_LT(mean_kl(tiny_model(), gptq), 0.75 * mean_kl(tiny_model(), rounded));
  EXPECT_LT(perplexity_of(gptq), perplexity_of(rounded));
  const auto header = header_of(gptq);
  EXPECT_EQ(header["quant_type"], "Q4_BLOCK");
  EXPECT_EQ(header["provenance"]["weight_quant"], "q4tp");
  const auto& provenance = header["provenance"]["gptq"];
  EXPECT_EQ(provenance["linears"], 28);
  EXPECT_EQ(provenance["tokens_used"], 16384);
  EXPECT_EQ(provenance["order"], "group");
  EXPECT_EQ(provenance["rtn_fallback"].size(), 0U);
  EXPECT_EQ(provenance["sources"][0]["file"], "built-in");
}

TEST(GptqCommand, bytes_do_not_depend_on_threads_or_on_the_run) {
  const fs::path folder = scratch_dir("gptq-threads");
  for (const std::string codec : {"q4tp", "q2tp"}) {
    const auto run = [&](const std::string& threads, const std::string& name) {
      std::vector<std::string> extra{"--codec", codec, "--threads", threads};
      if (codec == "q2tp") extra.push_back("--allow-few-tokens");
      short_gptq(folder / (codec + name), extra);
    };
    for (const char* threads : {"1", "2", "7"}) run(threads, threads);
    run("2", "again");
    for (const char* other : {"2", "7", "again"}) {
      EXPECT_TRUE(same_bytes(folder / (codec + "1"), folder / (codec + other)))
          << codec << " " << other;
    }
  }
}

TEST(GptqCommand, a_folder_gives_the_same_file_as_its_conversion) {
  const fs::path folder = scratch_dir("gptq-convert");
  expect_exit(0, {"convert", tiny_model(), (folder / "f16.cmf").string(), "--quiet"});
  short_gptq(folder / "direct.cmf", {});
  expect_exit(
      0, {"gptq", (folder / "f16.cmf").string(), "--output", (folder / "converted.cmf").string(),
          "--calib", eval_text(), "--tokens", "2048", "--window", "256", "--quiet"});
  EXPECT_TRUE(same_bytes(folder / "direct.cmf", folder / "converted.cmf"));
}

TEST(GptqCommand, a_cache_gives_the_same_weights_as_the_run_that_wrote_it) {
  const fs::path folder = scratch_dir("gptq-cache");
  const std::string cache = (folder / "a.hess").string();
  short_gptq(folder / "fresh.cmf", {"--hessians", cache});
  ASSERT_TRUE(fs::exists(cache));
  ASSERT_TRUE(fs::exists(cache + ".json"));
  short_gptq(folder / "cached.cmf", {"--hessians", cache});
  EXPECT_EQ(tensor_hashes(folder / "fresh.cmf"), tensor_hashes(folder / "cached.cmf"));
  const auto provenance = header_of(folder / "cached.cmf")["provenance"]["gptq"];
  EXPECT_EQ(provenance["hessians"].get<std::string>().substr(0, 6), "cache ");
  // A captured file serves too, and inspect lists every input once.
  expect_exit(0, {"hessians", "capture", tiny_model(), (folder / "b.hess").string(), "--calib",
                  eval_text(), "--tokens", "2048", "--window", "256", "--quiet"});
  EXPECT_TRUE(same_bytes(cache, folder / "b.hess"));
  const auto listing =
      nlohmann::json::parse(expect_exit(0, {"hessians", "inspect", cache, "--json"}).out);
  EXPECT_EQ(listing["entries"].size(), 16U);
  EXPECT_EQ(listing["entries"][0]["count"], 2048);
}

TEST(GptqCommand, a_cache_of_another_text_or_window_is_refused_unless_forced) {
  const fs::path folder = scratch_dir("gptq-foreign-cache");
  const std::string cache = (folder / "a.hess").string();
  short_gptq(folder / "fresh.cmf", {"--hessians", cache});
  const std::vector<std::string> other{
      "gptq",     tiny_model(), "--output",   (folder / "other.cmf").string(),
      "--calib",  eval_text(),  "--tokens",   "2048",
      "--window", "128",        "--hessians", cache,
      "--quiet"};
  const ProgramResult refused = expect_exit(3, other);
  EXPECT_NE(refused.err.find("window"), std::string::npos);
  EXPECT_FALSE(fs::exists(folder / "other.cmf"));
  std::vector<std::string> forced = other;
  forced.push_back("--hessians-force");
  expect_exit(0, forced);
}

TEST(GptqCommand, every_choice_of_the_sweep_gives_another_file) {
  const fs::path folder = scratch_dir("gptq-choices");
  const std::vector<std::vector<std::string>> choices{{},
                                                      {"--order", "natural"},
                                                      {"--order", "act"},
                                                      {"--rung", "diag"},
                                                      {"--ladder", "converter"},
                                                      {"--polish", "0"},
                                                      {"--q4tp-debias"},
                                                      {"--lambda", "0.1"},
                                                      {"--bos", "on"},
                                                      {"--skip", "embed_tokens,o_proj"},
                                                      {"--include", "*.mlp.*"},
                                                      {"--tensor-quant", "*.down_proj.weight=q8"},
                                                      {"--embeddings", "f16"},
                                                      {"--embeddings", "profile"}};
  std::map<std::string, std::size_t> seen;
  for (std::size_t i = 0; i < choices.size(); ++i) {
    const fs::path output = folder / std::to_string(i);
    short_gptq(output, choices[i]);
    std::string fingerprint;
    for (const auto& [name, hash] : tensor_hashes(output)) fingerprint += name + hash;
    const auto [at, fresh] = seen.try_emplace(fingerprint, i);
    EXPECT_TRUE(fresh) << "choices " << at->second << " and " << i << " gave the same weights";
  }
  short_gptq(folder / "act", {"--act-order"});
  EXPECT_EQ(tensor_hashes(folder / "act"), tensor_hashes(folder / "2"));
}

TEST(GptqCommand, q2tp_profile_gives_two_bits_to_gate_and_up_only) {
  const fs::path folder = scratch_dir("gptq-q2tp");
  // One-shot, so that a change of one matrix does not reach the others.
  const auto make = [&](const std::string& name, std::vector<std::string> extra) {
    extra.insert(extra.end(), {"--codec", "q2tp", "--allow-few-tokens", "--no-sequential"});
    short_gptq(folder / name, extra);
  };
  make("a.cmf", {});
  make("b.cmf", {"--q2tp-rule-tensor", "*.gate_proj.weight=cortiq"});
  make("c.cmf", {"--q2tp-debias", "off"});
  const auto a = tensor_hashes(folder / "a.cmf");
  const auto b = tensor_hashes(folder / "b.cmf");
  const auto c = tensor_hashes(folder / "c.cmf");
  for (const auto& [name, value] : a) {
    const bool gate = name.find("gate_proj") != std::string::npos;
    const bool two = gate || name.find("up_proj") != std::string::npos;
    EXPECT_EQ(value.starts_with("q2tp"), two) << name;
    EXPECT_EQ(value != b.at(name), gate) << name;
    EXPECT_EQ(value != c.at(name), two) << name;
  }
}

TEST(GptqCommand, reports_hold_every_tensor_and_the_perplexities) {
  const fs::path folder = scratch_dir("gptq-report");
  short_gptq(folder / "a.cmf", {"--report", (folder / "r.json").string(), "--report",
                                (folder / "r.html").string(), "--ppl", eval_text()});
  const auto report = nlohmann::json::parse(read_file(folder / "r.json"));
  EXPECT_EQ(report["tensors"].size(), 38U);
  EXPECT_EQ(report["gptq_tensors"], 28);
  EXPECT_EQ(report["missed"], 0);
  EXPECT_GT(report["perplexity"]["after"].get<double>(),
            report["perplexity"]["before"].get<double>());
  for (const auto& tensor : report["tensors"]) {
    if (tensor["action"] != "gptq") continue;
    EXPECT_LT(tensor["error"].get<double>(), tensor["rtn_error"].get<double>()) << tensor["name"];
    EXPECT_EQ(tensor["codes"].size(), 16U);
  }
  const std::string html = read_file(folder / "r.html");
  EXPECT_NE(html.find("model.layers.3.mlp.down_proj.weight"), std::string::npos);
  EXPECT_EQ(html.find("http://"), std::string::npos) << "the page must need nothing from a network";
  EXPECT_EQ(html.find("https://"), std::string::npos);
}

TEST(GptqCommand, dry_run_shows_the_plan_and_writes_nothing) {
  const fs::path folder = scratch_dir("gptq-dry");
  const ProgramResult result =
      expect_exit(0, {"gptq", tiny_model(), "--output", (folder / "a.cmf").string(), "--window",
                      "256", "--dry-run", "--hessians", (folder / "h").string()});
  EXPECT_NE(result.err.find("28 matrices that share 16 inputs"), std::string::npos) << result.err;
  EXPECT_NE(result.err.find("output file"), std::string::npos);
  EXPECT_TRUE(fs::is_empty(folder));
}

TEST(GptqCommand, the_output_name_follows_input_and_codec) {
  const fs::path folder = scratch_dir("gptq-name");
  expect_exit(0, {"convert", tiny_model(), (folder / "my model.cmf").string(), "--quiet"});
  expect_exit(0, {"gptq", (folder / "my model.cmf").string(), "--tokens", "512", "--window", "256",
                  "--quiet"});
  EXPECT_TRUE(fs::exists(folder / "my model-q4tp.cmf"));
}

TEST(GptqCommand, interrupt_ends_with_130_and_leaves_no_output) {
  const fs::path folder = scratch_dir("gptq-interrupt");
  RunOptions options;
  options.interrupt_after_ms = 400;
  const ProgramResult result =
      run_program({"gptq", tiny_model(), "--output", (folder / "a.cmf").string(), "--window",
                   "1024", "--tokens", "120000", "--threads", "1", "--quiet"},
                  options);
  EXPECT_EQ(result.exit_code, 130) << result.err;
  EXPECT_FALSE(fs::exists(folder / "a.cmf"));
}

}  // namespace cortiq::test
