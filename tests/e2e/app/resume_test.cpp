// Interrupted runs: what they leave, how they are continued, and that the result has the bytes of
// an uninterrupted run. Two kills at seeded random moments each for 4 one-shot runs, 3 sequential
// runs, 5 runs with a Hessian cache and 4 runs of a model with experts.
#include <signal.h>

#include <chrono>
#include <cstring>
#include <fstream>
#include <random>


#include "e2e.hpp"

namespace cortiq::test {
namespace fs = std::filesystem;
namespace {

using Words = std::vector<std::string>;

/// A run of some 0.3 s with many moments at which it can be hit.
Words slow_gptq(const fs::path& output, const Words& extra,
                const std::string& text = eval_text()) {
  Words arguments{"gptq", tiny_model(), "--output", output.string(), "--calib", text,
                  "--tokens", "6000", "--window", "128", "--quiet"};
  arguments.insert(arguments.end(), extra.begin(), extra.end());
  return arguments;
}

Words with(Words words, const Words& more) {
  words.insert(words.end(), more.begin(), more.end());
  return words;
}

fs::path partial(const fs::path& output) { return output.string() + ".partial"; }
fs::path journal(const fs::path& output) { return output.string() + ".partial.journal"; }

/// Milliseconds that the run takes when nobody disturbs it.
int duration_ms(const Words& arguments) {
  const auto start = std::chrono::steady_clock::now();
  expect_exit(0, arguments);
  return static_cast<int>(std::chrono::duration_cast<std::chrono::milliseconds>(
                              std::chrono::steady_clock::now() - start)
                              .count());
}

/// Kills the run again and again at random moments, continuing it each time, then lets it finish.
/// Returns how often it was hit while it was at work.
int finish_despite_kills(const Words& command, int span_ms, std::mt19937& random, int kills) {
  int hits = 0;
  for (int i = 0; i < kills; ++i) {
    RunOptions options;
    options.interrupt_after_ms = std::uniform_int_distribution<int>(1, span_ms)(random);
    options.interrupt_signal = i % 3 == 2 ? SIGINT : SIGKILL;
    const ProgramResult result = run_program(with(command, {"--resume"}), options);
    const bool killed = result.exit_code == 128 + SIGKILL || result.exit_code == 130;
    EXPECT_TRUE(killed || result.exit_code == 0) << result.exit_code << result.err;
    if (!killed) return hits;
    ++hits;
  }
  expect_exit(0, with(command, {"--resume"}));
  return hits;
}

void expect_same_after_kills(const std::string& name, const Words& extra, unsigned seed,
                             int rounds) {
  const fs::path folder = scratch_dir("resume-" + name);
  const Words reference = slow_gptq(folder / "whole.cmf", extra);
  int span = duration_ms(reference) + 20;
  std::mt19937 random(seed);
  int hits = 0;
  for (int round = 0; round < rounds || (hits < rounds && round < 6 * rounds); ++round) {
    const fs::path output = folder / (std::to_string(round) + ".cmf");
    const int now = finish_despite_kills(slow_gptq(output, extra), span, random, 2);
    hits += now;
    if (now < 2) span = std::max(40, span * 3 / 4);  // the machine was busy when it was measured
    EXPECT_TRUE(same_bytes(folder / "whole.cmf", output)) << name << " round " << round;
    EXPECT_FALSE(fs::exists(partial(output)));
    EXPECT_FALSE(fs::exists(journal(output)));
    fs::remove(output);
  }
  EXPECT_GE(hits, rounds) << "the test hit too few runs while they were at work";
}

/// Interrupts a run by SIGINT once it has finished some tensors.
ProgramResult interrupted(const Words& command, const fs::path& output) {
  for (int attempt = 0; attempt < 3; ++attempt) {
    for (int ms = 60; ms < 4000; ms += 20) {
      RunOptions options;
      options.interrupt_after_ms = ms;
      const ProgramResult result = run_program(command, options);
      if (fs::exists(journal(output))) return result;
      if (result.exit_code != 130) break;
    }
    fs::remove(output);
  }
  ADD_FAILURE() << "no run was interrupted in the middle";
  return {};
}

}  // namespace

TEST(Resume, one_shot_runs_killed_at_random_moments_give_the_bytes_of_an_undisturbed_run) {
  expect_same_after_kills("one-shot", {}, 11, 4);
}

TEST(Resume, sequential_runs_killed_at_random_moments_give_the_bytes_of_an_undisturbed_run) {
  expect_same_after_kills("sequential", {"--sequential"}, 12, 3);
}

TEST(Resume, experts_are_summed_in_the_same_order_when_a_layer_is_passed_again) {
  const fs::path model = zoo_dir() / "qwen3_moe";
  if (!fs::exists(model / "config.json")) GTEST_SKIP() << "no model " << model;
  const fs::path folder = scratch_dir("resume-experts");
  for (const std::string mode : {"--sequential", "--no-sequential"}) {
    const auto command = [&](const fs::path& output) {
      return Words{"gptq",     model.string(), "--output", output.string(), "--calib",
                   eval_text(), "--tokens",     "1024",     "--window",      "128",
                   mode,        "--quiet"};
    };
    const int span = duration_ms(command(folder / "whole.cmf")) + 20;
    std::mt19937 random(14);
    for (int round = 0; round < 2; ++round) {
      finish_despite_kills(command(folder / "a.cmf"), span, random, 2);
      EXPECT_TRUE(same_bytes(folder / "whole.cmf", folder / "a.cmf")) << mode << round;
      fs::remove(folder / "a.cmf");
    }
  }
}

TEST(Resume, runs_that_write_a_cache_leave_the_same_cache_too) {
  const fs::path folder = scratch_dir("resume-cache");
  const Words whole =
      slow_gptq(folder / "whole.cmf", {"--hessians", (folder / "whole.h").string()});
  const int span = duration_ms(whole) + 20;
  std::mt19937 random(13);
  for (int round = 0; round < 3; ++round) {
    const fs::path cache = folder / (std::to_string(round) + ".h");
    const fs::path output = folder / (std::to_string(round) + ".cmf");
    finish_despite_kills(slow_gptq(output, {"--hessians", cache.string()}), span, random, 2);
    EXPECT_TRUE(same_bytes(folder / "whole.cmf", output)) << round;
    EXPECT_TRUE(same_bytes(folder / "whole.h", cache)) << round;
    EXPECT_FALSE(fs::exists(cache.string() + ".partial"));
  }
  // And a run that reads the cache.
  const fs::path output = folder / "read.cmf";
  const Words read = slow_gptq(output, {"--hessians", (folder / "whole.h").string()});
  const int short_span = duration_ms(read) + 20;
  const std::string expected = read_file(output);
  for (int round = 0; round < 2; ++round) {
    fs::remove(output);
    finish_despite_kills(read, short_span, random, 2);
    EXPECT_TRUE(read_file(output) == expected) << round;
  }
}

TEST(Resume, an_interrupt_says_what_is_kept_and_a_second_run_explains_it) {
  const fs::path folder = scratch_dir("resume-explain");
  const fs::path output = folder / "a.cmf";
  const Words command = slow_gptq(output, {});
  const ProgramResult result = interrupted(command, output);
  EXPECT_EQ(result.exit_code, 130);
  EXPECT_NE(result.err.find("of 38 tensors are finished and kept in"), std::string::npos)
      << result.err;
  EXPECT_NE(result.err.find("--resume"), std::string::npos);
  EXPECT_FALSE(fs::exists(output));
  const std::string kept = read_file(partial(output));
  const ProgramResult again = expect_exit(3, command);
  EXPECT_NE(again.err.find("a.cmf.partial"), std::string::npos) << again.err;
  EXPECT_NE(again.err.find("--resume"), std::string::npos) << again.err;
  EXPECT_TRUE(read_file(partial(output)) == kept) << "a refused run must not touch what is kept";
  const ProgramResult dry = expect_exit(0, with(command, {"--dry-run"}));
  EXPECT_NE(dry.err.find("--resume would continue it"), std::string::npos) << dry.err;
  fs::remove(partial(output));
  expect_exit(0, command);
  EXPECT_TRUE(fs::exists(output));
}

TEST(Resume, another_option_or_input_is_refused_by_name) {
  const fs::path folder = scratch_dir("resume-refuse");
  const fs::path output = folder / "a.cmf";
  const fs::path text = folder / "text.txt";
  fs::copy_file(eval_text(), text);
  const Words command = slow_gptq(output, {}, text.string());
  interrupted(command, output);
  const std::vector<std::pair<Words, std::string>> changes{
      {{"--lambda", "0.02"}, "lambda: 0.02 here, 0.01 in the interrupted run"},
      {{"--codec", "q1s"}, "codec: q1s here, q4tp in the interrupted run"},
      {{"--polish", "0"}, "polish: 0 here, 2 in the interrupted run"},
      {{"--sequential"}, "sequential: true here, false in the interrupted run"},
      {{"--bos", "on"}, "bos: true here, false in the interrupted run"},
      {{"--simd", "portable"}, "simd: portable here"},
      {{"--tensor-quant", "*.q_proj.weight=q8"}, "tensor_quant: "},
      {{"--hessians", (folder / "h").string()}, "hessian_cache: "}};
  for (const auto& [extra, message] : changes) {
    const ProgramResult result = expect_exit(3, with(command, with({"--resume"}, extra)));
    EXPECT_NE(result.err.find(message), std::string::npos) << message << "\n" << result.err;
    EXPECT_TRUE(fs::exists(partial(output)));
  }
  std::ofstream(text, std::ios::binary | std::ios::in) << "Another beginning";
  const ProgramResult changed = expect_exit(3, with(command, {"--resume"}));
  EXPECT_NE(changed.err.find("calib: "), std::string::npos) << changed.err;
  fs::remove(text);
  fs::copy_file(eval_text(), text);
  expect_exit(0, with(command, {"--resume", "--threads", "1", "--max-missed", "3"}));
}

TEST(Resume, damaged_payloads_and_a_torn_journal_are_done_again) {
  const fs::path folder = scratch_dir("resume-damage");
  expect_exit(0, slow_gptq(folder / "whole.cmf", {}));
  const fs::path output = folder / "a.cmf";
  const Words command = slow_gptq(output, {});
  interrupted(command, output);
  std::string bytes = read_file(partial(output));
  for (std::size_t at = bytes.size() / 4; at < bytes.size(); at += bytes.size() / 8) {
    // What is not zero belongs to a payload.
    const std::size_t payload = bytes.find_first_not_of('\0', at);
    if (payload != std::string::npos) bytes[payload] = static_cast<char>(bytes[payload] ^ 0x5a);
  }
  std::ofstream(partial(output), std::ios::binary) << bytes;
  fs::resize_file(journal(output), fs::file_size(journal(output)) - 7);
  expect_exit(0, with(command, {"--resume"}));
  EXPECT_TRUE(same_bytes(folder / "whole.cmf", output));
}

TEST(Resume, nothing_but_payloads_is_taken_over_from_the_partial_file) {
  const fs::path folder = scratch_dir("resume-gaps");
  expect_exit(0, slow_gptq(folder / "whole.cmf", {}));
  const std::string whole = read_file(folder / "whole.cmf");
  const fs::path output = folder / "a.cmf";
  const Words command = slow_gptq(output, {});
  interrupted(command, output);
  std::string bytes = read_file(partial(output));
  // Where the payloads lie in the finished file, by its directory.
  const auto u64 = [&](std::size_t at) {
    std::uint64_t value = 0;
    std::memcpy(&value, whole.data() + at, sizeof value);
    return static_cast<std::size_t>(value);
  };
  std::vector<char> payload(whole.size(), 0);
  for (std::size_t i = 0; i < u64(u64(0x20)); ++i) {
    const std::size_t record = u64(0x20) + 16 + 56 * i;
    const std::size_t begin = u64(0x30) + u64(record + 32);
    std::fill_n(payload.begin() + static_cast<std::ptrdiff_t>(begin), u64(record + 40), char{1});
  }
  std::size_t damaged = 0;
  for (std::size_t i = 0; i < bytes.size() && i < payload.size(); ++i) {
    if (payload[i] != 0) continue;
    bytes[i] = static_cast<char>(bytes[i] ^ (1 << i % 8));
    ++damaged;
  }
  EXPECT_GT(damaged, 65536U);
  std::ofstream(partial(output), std::ios::binary) << bytes << "and more";
  const ProgramResult result = expect_exit(0, with(command, {"--resume"}));
  EXPECT_TRUE(same_bytes(folder / "whole.cmf", output)) << result.err;
}

TEST(Resume, files_of_somebody_else_under_the_names_of_a_run_are_refused_and_left_alone) {
  const fs::path folder = scratch_dir("resume-foreign");
  const fs::path output = folder / "a.cmf";
  const fs::path cache = folder / "h";
  const std::string notes = "notes of somebody\n";
  const std::vector<std::pair<fs::path, Words>> cases{
      {partial(output), slow_gptq(output, {})},
      {partial(output), slow_gptq(output, {"--resume"})},
      {partial(output), slow_gptq(output, {"--dry-run"})},
      {journal(output), slow_gptq(output, {})},
      {journal(output), slow_gptq(output, {"--resume"})},
      {partial(cache), slow_gptq(output, {"--hessians", cache.string()})},
      {partial(cache),
       {"hessians", "capture", tiny_model(), cache.string(), "--tokens", "512", "--quiet"}},
      {partial(output), {"convert", tiny_model(), output.string(), "--quiet"}},
      {partial(output),
       {"quantize", tiny_model(), "--codec", "q8", "--output", output.string(), "--dry-run"}}};
  for (const auto& [file, command] : cases) {
    std::ofstream(file, std::ios::binary) << notes;
    const ProgramResult result = expect_exit(3, command);
    EXPECT_NE(result.err.find(file.filename().string() + ": exists"), std::string::npos)
        << result.err;
    EXPECT_NE(result.err.find("move or remove it"), std::string::npos) << result.err;
    EXPECT_EQ(read_file(file), notes);
    EXPECT_EQ(std::distance(fs::directory_iterator(folder), {}), 1);
    fs::remove(file);
  }
}

TEST(Resume, a_partial_file_that_a_killed_command_left_without_a_journal_is_overwritten) {
  const fs::path folder = scratch_dir("resume-own");
  const fs::path output = folder / "a.cmf";
  const Words command = slow_gptq(output, {});
  interrupted(command, output);
  fs::remove(journal(output));
  expect_exit(0, command);
  EXPECT_FALSE(fs::exists(partial(output)));
}

TEST(Resume, without_an_interrupted_run_the_option_starts_anew) {
  const fs::path folder = scratch_dir("resume-none");
  short_gptq(folder / "a.cmf", {});
  const ProgramResult result = short_gptq(folder / "b.cmf", {"--resume"});
  EXPECT_TRUE(same_bytes(folder / "a.cmf", folder / "b.cmf")) << result.err;
  EXPECT_EQ(std::distance(fs::directory_iterator(folder), {}), 2);
}

}  // namespace cortiq::test
