// --mem-gb and --spill: what does not fit goes to disk and changes no byte.
#include "e2e.hpp"

namespace cortiq::test {
namespace fs = std::filesystem;
namespace {

/// The number behind a word of the plan's memory line.
double planned_mb(const ProgramResult& result, const std::string& word) {
  const auto line = result.err.find("memory: peak");
  const auto at = line == std::string::npos ? line : result.err.find(word + " ", line);
  EXPECT_NE(at, std::string::npos) << word << "\n" << result.err;
  return at == std::string::npos ? 0 : std::stod(result.err.substr(at + word.size() + 1));
}

}  // namespace

/// Runs a model with the least memory that a plan accepts and a little more; the plans' words that
/// were seen.
std::string run_with_little_memory(const fs::path& folder, const std::string& model,
                                   const std::string& tokens) {
  const auto run = [&](const std::string& name, std::vector<std::string> extra) {
    std::vector<std::string> arguments{"gptq",     model,
                                       "--output", (folder / name).string(),
                                       "--calib",  eval_text(),
                                       "--tokens", tokens,
                                       "--window", "256",
                                       "--threads", "2",
                                       // a software device maps more or fewer pages in every run
                                       "--device", "cpu"};
    arguments.insert(arguments.end(), extra.begin(), extra.end());
    return run_program(arguments);
  };
  const auto limit = [](double mb) {
    return std::vector<std::string>{"--mem-gb", std::to_string(mb / 1000)};
  };
  const ProgramResult free = run("free.cmf", {});
  EXPECT_EQ(free.exit_code, 0) << free.err;
  double accepted = 0;
  ProgramResult refused;
  for (double mb = planned_mb(free, "peak") + 0.5; mb > 1; mb -= 0.25) {
    std::vector<std::string> dry = limit(mb);
    dry.emplace_back("--dry-run");
    refused = run("dry.cmf", dry);
    if (refused.exit_code != 0) break;
    accepted = mb;
  }
  EXPECT_EQ(refused.exit_code, 3) << refused.err;
  EXPECT_NE(refused.err.find("raise --mem-gb"), std::string::npos) << refused.err;
  std::string words;
  for (const double more : {4.0, 0.7, 0.5}) {
    ProgramResult result = run("limited.cmf", limit(accepted + more));
    // What the program itself holds when it plans wobbles with the pages that the system maps.
    for (double wobble = 0.25; result.exit_code == 3 && wobble < 3; wobble += 0.25) {
      result = run("limited.cmf", limit(accepted + more + wobble));
    }
    EXPECT_EQ(result.exit_code, 0) << result.err;
    EXPECT_TRUE(same_bytes(folder / "free.cmf", folder / "limited.cmf")) << more;
    words += result.err;
  }
  EXPECT_EQ(std::distance(fs::directory_iterator(folder), {}), 2) << "no temporary file is left";
  return words;
}

TEST(Memory, hidden_states_that_do_not_fit_lie_on_disk_with_the_same_bytes) {
  const std::string words =
      run_with_little_memory(scratch_dir("memory-hidden"), tiny_model(), "16384");
  EXPECT_NE(words.find("MB (on disk)"), std::string::npos) << words;
}

TEST(Memory, hessians_that_do_not_fit_lie_on_disk_with_the_same_bytes) {
  const fs::path model = zoo_dir() / "qwen3_moe";
  if (!fs::exists(model / "config.json")) GTEST_SKIP() << "no model " << model;
  const std::string words =
      run_with_little_memory(scratch_dir("memory-hessians"), model.string(), "1024");
  EXPECT_NE(words.find("(all but"), std::string::npos) << words;
}

TEST(Memory, a_run_holds_about_what_its_plan_says) {
#ifdef CORTIQ_SANITIZED
  GTEST_SKIP() << "a sanitizer's own memory is not planned";
#endif
  const fs::path folder = scratch_dir("memory-peak");
  const fs::path experts = zoo_dir() / "qwen3_moe";
  for (const std::string& model : {tiny_model(), experts.string()}) {
    if (!fs::exists(fs::path(model) / "config.json")) continue;
    for (const char* calibration : {"--sequential", "--no-sequential"}) {
      for (const bool spilled : {false, true}) {
        std::vector<std::string> arguments{"gptq",     model,
                                           "--output", (folder / "a.cmf").string(),
                                           "--calib",  eval_text(),
                                           "--tokens", "16384",
                                           "--window", "256",
                                           "--polish", "0",
                                           "--device", "cpu",
                                           "--threads", "2",
                                           calibration};
        if (spilled) arguments.insert(arguments.end(), {"--spill", folder.string()});
        // A busy machine reclaims pages and keeps workers from running together, so one fit counts.
        std::string misfit = "not run";
        for (int attempt = 0; attempt < 3 && !misfit.empty(); ++attempt) {
          const ProgramResult result = run_program(arguments);
          ASSERT_EQ(result.exit_code, 0) << result.err;
          const double planned = planned_mb(result, "peak");
          // Small models: code and tables that are read after the plan count for some megabytes.
          const bool fits = result.peak_mb < 1.1 * planned + 10 && result.peak_mb > 0.75 * planned;
          misfit = fits ? "" : std::to_string(result.peak_mb) + " of " + std::to_string(planned);
        }
        EXPECT_EQ(misfit, "") << model << calibration << spilled;
      }
    }
  }
}

TEST(Memory, the_dry_run_plans_what_the_run_plans) {
  const fs::path folder = scratch_dir("memory-dry");
  const auto line = [](const std::string& text) {
    const auto at = text.find("layer weights and panels", text.find("memory: peak"));
    return text.substr(at, text.find('\n', at) - at);
  };
  const auto run = [&](std::vector<std::string> extra) {
    std::vector<std::string> arguments{"gptq", tiny_model(), "--output",
                                       (folder / "a.cmf").string(), "--window", "256", "--tokens",
                                       "2048"};
    arguments.insert(arguments.end(), extra.begin(), extra.end());
    return expect_exit(0, arguments).err;
  };
  EXPECT_EQ(line(run({"--dry-run"})), line(run({})));
}

}  // namespace cortiq::test
