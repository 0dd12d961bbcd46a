// e2e.hpp: what the end-to-end tests share: paths of the bundled model and text, scratch files,
// short runs.
#pragma once

#include <gtest/gtest.h>

#include <filesystem>
#include <map>
#include <nlohmann/json.hpp>
#include <string>
#include <vector>

#include "data_dirs.hpp"
#include "run_program.hpp"

namespace cortiq::test {

inline std::string tiny_model() { return (data_dir() / "tiny-llama").string(); }
inline std::string eval_text() { return (data_dir() / "text/eval.txt").string(); }

/// Runs the program and expects this exit code; what it said is shown where it differs.
inline ProgramResult expect_exit(int code, const std::vector<std::string>& arguments,
                                 const RunOptions& options = {}) {
  ProgramResult result = run_program(arguments, options);
  EXPECT_EQ(result.exit_code, code) << "stdout: " << result.out << "\nstderr: " << result.err;
  return result;
}

/// A short GPTQ run of the bundled model with extra options.
inline ProgramResult short_gptq(const std::filesystem::path& output, std::vector<std::string> extra,
                                int code = 0) {
  std::vector<std::string> arguments{"gptq",     tiny_model(), "--output", output.string(),
                                     "--calib",  eval_text(),  "--tokens", "2048",
                                     "--window", "256",        "--quiet"};
  arguments.insert(arguments.end(), extra.begin(), extra.end());
  return expect_exit(code, arguments);
}

/// name -> (dtype, hash) of every tensor, from `inspect --json`.
inline std::map<std::string, std::string> tensor_hashes(const std::filesystem::path& model) {
  const ProgramResult result = expect_exit(0, {"inspect", model.string(), "--json"});
  std::map<std::string, std::string> hashes;
  const auto json = nlohmann::json::parse(result.out, nullptr, false);
  if (json.is_discarded()) return hashes;
  for (const auto& tensor : json["tensors"]) {
    hashes[tensor["name"]] =
        tensor["dtype"].get<std::string>() + " " + tensor["hash"].get<std::string>();
  }
  return hashes;
}

inline nlohmann::json header_of(const std::filesystem::path& model) {
  return nlohmann::json::parse(expect_exit(0, {"inspect", model.string(), "--json"}).out)["header"];
}

/// Perplexity on the bundled text, first 8192 tokens.
inline double perplexity_of(const std::filesystem::path& model) {
  const ProgramResult result =
      expect_exit(0, {"ppl", model.string(), eval_text(), "--tokens", "8192", "--json", "--quiet"});
  return nlohmann::json::parse(result.out)["perplexity"];
}

inline double mean_kl(const std::filesystem::path& base, const std::filesystem::path& test) {
  const ProgramResult result = expect_exit(0, {"kld", base.string(), test.string(), eval_text(),
                                               "--tokens", "8192", "--json", "--quiet"});
  return nlohmann::json::parse(result.out)["mean_kl"];
}

}  // namespace cortiq::test
