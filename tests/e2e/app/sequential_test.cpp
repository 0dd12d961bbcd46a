// Sequential calibration and effort levels: what the file holds, what is refused.
#include <fstream>

#include "e2e.hpp"

namespace cortiq::test {
namespace fs = std::filesystem;
using nlohmann::json;

namespace {

std::string zoo_model(const std::string& name) {
  const fs::path folder = zoo_dir() / name;
  return fs::exists(folder / "config.json") ? folder.string() : std::string();
}

struct Job {
  std::string model;
  std::vector<std::string> options;
  fs::path output;
  std::string tokens = "2048";
  std::string window = "128";
};

ProgramResult run(const Job& job, const std::vector<std::string>& extra, int code = 0) {
  std::vector<std::string> arguments{"gptq",    job.model,   "--output", job.output.string(),
                                     "--calib", eval_text(), "--tokens", job.tokens,
                                     "--window", job.window, "--embeddings", "f16"};
  arguments.insert(arguments.end(), job.options.begin(), job.options.end());
  arguments.insert(arguments.end(), extra.begin(), extra.end());
  return expect_exit(code, arguments);
}

/// Hashes of the tensors whose name begins so.
std::map<std::string, std::string> starting(const std::map<std::string, std::string>& hashes,
                                            const std::string& prefix) {
  std::map<std::string, std::string> some;
  for (const auto& [name, hash] : hashes) {
    if (name.starts_with(prefix)) some[name] = hash;
  }
  return some;
}

}  // namespace

// docs/quality.md section 9: alpha 0 is the sequential inputs alone, and the written payload
// decodes to the weights that the next stage saw. A one-shot run whose calibration forward goes
// through the finished file captures exactly these inputs, so it must give the same codes.
TEST(SequentialCommand, with_alpha_0_the_file_is_the_fixed_point_of_its_own_forward) {
  for (const char* name : {"llama", "gemma3", "qwen3_5", "qwen2_moe"}) {
    SCOPED_TRACE(name);
    const std::string model = zoo_model(name);
    if (model.empty()) GTEST_SKIP() << "no model " << name;
    const fs::path folder = scratch_dir("sequential-fixed");
    // All experts with rows of their own: the order of their sums is then the forward's.
    const std::vector<std::string> common{"--min-rows", "0", "--max-missed", "1000", "--quiet"};
    const fs::path sequential = folder / "sequential.cmf";
    run({model, common, sequential}, {"--sequential", "--seq-alpha", "0"});
    run({model, common, folder / "again.cmf"}, {"--calib-model", sequential.string()});
    EXPECT_EQ(tensor_hashes(sequential), tensor_hashes(folder / "again.cmf"));
    run({model, common, folder / "one-shot.cmf"}, {});
    EXPECT_NE(tensor_hashes(sequential), tensor_hashes(folder / "one-shot.cmf"));
  }
}

TEST(SequentialCommand, the_first_inputs_of_layer_0_are_quantized_as_without_it) {
  const fs::path folder = scratch_dir("sequential-first");
  run({tiny_model(), {"--quiet"}, folder / "a.cmf"}, {"--sequential"});
  run({tiny_model(), {"--quiet"}, folder / "b.cmf"}, {});
  const auto sequential = tensor_hashes(folder / "a.cmf");
  const auto one_shot = tensor_hashes(folder / "b.cmf");
  for (const char* part : {"q", "k", "v"}) {
    const std::string name = std::string("model.layers.0.self_attn.") + part + "_proj.weight";
    EXPECT_EQ(sequential.at(name), one_shot.at(name));
  }
  EXPECT_NE(sequential.at("model.layers.0.self_attn.o_proj.weight"),
            one_shot.at("model.layers.0.self_attn.o_proj.weight"));
  EXPECT_NE(starting(sequential, "model.layers.3."), starting(one_shot, "model.layers.3."));
}

TEST(SequentialCommand, bytes_do_not_depend_on_threads_or_on_spilling) {
  const fs::path folder = scratch_dir("sequential-threads");
  for (const char* name : {"llama", "qwen3_moe"}) {
    const std::string model = zoo_model(name);
    if (model.empty()) GTEST_SKIP() << "no model " << name;
    const auto one = [&](const std::string& output, const std::vector<std::string>& extra) {
      run({model, {"--sequential", "--quiet"}, folder / output}, extra);
    };
    one("1", {"--threads", "1"});
    one("2", {"--threads", "2"});
    one("7", {"--threads", "7", "--spill", folder.string()});
    for (const char* other : {"2", "7"})
      EXPECT_TRUE(same_bytes(folder / "1", folder / other)) << name << " " << other;
  }
}

TEST(SequentialCommand, is_the_default_of_q2tp_and_nearer_to_the_original) {
  const fs::path folder = scratch_dir("sequential-q2tp");
  const auto make = [&](const std::string& output, const std::vector<std::string>& extra) {
    return run({tiny_model(), {"--codec", "q2tp", "--allow-few-tokens"}, folder / output, "16384",
                "256"},
               extra);
  };
  const ProgramResult result = make("default.cmf", {});
  EXPECT_NE(result.err.find("--no-sequential"), std::string::npos) << result.err;
  make("one-shot.cmf", {"--no-sequential"});
  EXPECT_LT(mean_kl(tiny_model(), folder / "default.cmf"),
            0.9 * mean_kl(tiny_model(), folder / "one-shot.cmf"));
  const json gptq = header_of(folder / "default.cmf")["provenance"]["gptq"];
  EXPECT_EQ(gptq["sequential"], true);
  EXPECT_EQ(gptq["effort"], "default");
  EXPECT_EQ(gptq["seq_alpha"], 0.75);
  EXPECT_EQ(header_of(folder / "one-shot.cmf")["provenance"]["gptq"]["sequential"], false);
}

TEST(SequentialCommand, corrects_through_the_norms_behind_the_blocks_of_gemma) {
  const std::string model = zoo_model("gemma3");
  if (model.empty()) GTEST_SKIP() << "no model";
  const fs::path folder = scratch_dir("sequential-gemma");
  run({model, {"--quiet"}, folder / "a.cmf", "16384"}, {"--sequential"});
  run({model, {"--quiet"}, folder / "b.cmf", "16384"}, {});
  EXPECT_LT(mean_kl(model, folder / "a.cmf"), 0.85 * mean_kl(model, folder / "b.cmf"));
}

TEST(SequentialCommand, experts_with_few_rows_get_the_prior_and_the_rest_is_reported) {
  const std::string model = zoo_model("qwen3_moe");
  if (model.empty()) GTEST_SKIP() << "no model";
  const fs::path folder = scratch_dir("sequential-experts");
  const fs::path report = folder / "r.json";
  run({model, {"--sequential"}, folder / "a.cmf", "512"},
      {"--report", report.string()});
  std::ifstream file(report);
  const json parsed = json::parse(file, nullptr, false);
  std::int64_t priors = 0;
  for (const json& tensor : parsed["tensors"]) priors += tensor.value("prior_rows", 0) == 128;
  EXPECT_GT(priors, 0);
  EXPECT_EQ(parsed["missed"], 0);
  run({model, {"--sequential", "--moe-prior", "0"}, folder / "b.cmf", "512"}, {}, 3);
  expect_exit(0, {"verify", (folder / "b.cmf").string()});
}

TEST(EffortCommand, recipes_set_their_parts_and_single_options_replace_them) {
  const fs::path folder = scratch_dir("effort");
  const auto provenance = [&](const std::vector<std::string>& extra) {
    run({tiny_model(), {"--quiet"}, folder / "a.cmf"}, extra);
    return header_of(folder / "a.cmf")["provenance"]["gptq"];
  };
  const json fast = provenance({"--effort", "fast"});
  EXPECT_EQ(fast["polish"], 0);
  EXPECT_EQ(fast["sequential"], false);
  EXPECT_EQ(fast["rung"], "sim");
  const json plain = provenance({});
  EXPECT_EQ(plain["effort"], "default");
  EXPECT_EQ(plain["polish"], 2);
  EXPECT_EQ(plain, provenance({"--effort", "default"}));
  const json high = provenance({"--effort", "high"});
  EXPECT_EQ(high["polish"], 4);
  EXPECT_EQ(high["group_moves"], true);
  EXPECT_FALSE(plain.contains("group_moves"));
  EXPECT_EQ(high["sequential"], true);
  EXPECT_EQ(high["rung"], "all");
  EXPECT_EQ(high["calibration_tokens"], 2048) << "--tokens replaces the recipe's";
  const json mixed =
      provenance({"--effort", "high", "--no-sequential", "--polish", "1", "--rung", "sim"});
  EXPECT_EQ(mixed["polish"], 1);
  EXPECT_EQ(provenance({"--row-scale"})["row_scale"], true);
  EXPECT_FALSE(provenance({"--effort", "high", "--no-group-moves"}).contains("group_moves"));
  EXPECT_EQ(mixed["sequential"], false);
  EXPECT_EQ(mixed["rung"], "sim");
}

TEST(EffortCommand, larger_steps_of_a_polish_that_does_not_run_are_refused) {
  const std::string out = (scratch_dir("moves-refused") / "a.cmf").string();
  for (const std::vector<std::string>& extra :
       {std::vector<std::string>{"--group-moves", "--polish", "0"},
        {"--row-scale", "--rung", "diag"},
        {"--group-moves", "--order", "act"},
        {"--row-scale", "--effort", "fast"}}) {
    std::vector<std::string> arguments{"gptq", tiny_model(), "--output", out};
    arguments.insert(arguments.end(), extra.begin(), extra.end());
    EXPECT_NE(expect_exit(2, arguments).err.find(extra[0] + ": is a part of the polish"),
              std::string::npos);
  }
}

TEST(EffortCommand, high_effort_takes_all_of_the_text_up_to_131072_tokens) {
  const ProgramResult result = expect_exit(
      0, {"gptq", tiny_model(), "--output", (scratch_dir("effort-dry") / "a.cmf").string(),
          "--effort", "high", "--calib", eval_text(), "--dry-run"});
  EXPECT_NE(result.err.find("131072 tokens wanted"), std::string::npos) << result.err;
  EXPECT_NE(result.err.find("effort high: order group, rung all, ladder fit, 4 polish passes with group moves, "
                            "sequential"),
            std::string::npos)
      << result.err;
}

TEST(EffortCommand, contradictions_are_refused_with_the_reason) {
  const fs::path folder = scratch_dir("effort-refusals");
  const auto refusal = [&](const std::vector<std::string>& extra) {
    return run({tiny_model(), {"--quiet"}, folder / "a.cmf"}, extra, 2).err;
  };
  const std::string cache = (folder / "a.hess").string();
  EXPECT_NE(refusal({"--sequential", "--hessians", cache}).find("depend on the quantized layers"),
            std::string::npos);
  EXPECT_NE(refusal({"--effort", "high", "--hessians", cache}).find("part of --effort high"),
            std::string::npos);
  EXPECT_NE(refusal({"--sequential", "--no-sequential"}).find("contradict"), std::string::npos);
  EXPECT_NE(refusal({"--effort", "high", "--order", "act"}).find("--order act"),
            std::string::npos);
  EXPECT_NE(refusal({"--seq-alpha", "0.5"}).find("only with sequential"), std::string::npos);
  EXPECT_NE(refusal({"--effort", "best"}).find("--effort"), std::string::npos);
  EXPECT_NE(refusal({"--sequential", "--seq-rho", "-1"}).find("--seq-rho"), std::string::npos);
  EXPECT_FALSE(fs::exists(folder / "a.cmf"));
  EXPECT_FALSE(fs::exists(cache));
}

}  // namespace cortiq::test
