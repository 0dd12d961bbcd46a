// Paths may hold any bytes; JSON may not.
#include <gtest/gtest.h>

#include <filesystem>
#include <fstream>
#include <nlohmann/json.hpp>

#include "data_dirs.hpp"
#include "run_program.hpp"

namespace cortiq::test {
namespace {

TEST(Names, PathsThatAreNotUtf8GiveValidJsonEverywhere) {
  const auto folder = scratch_dir("names");
  const std::string calib = (folder / "text\xff.txt").string();
  std::ofstream text(calib);
  for (int i = 0; i < 400; ++i) text << "the quick brown fox number " << i << " jumps\n";
  text.close();
  const std::string output = (folder / "out\xff.cmf").string();
  const std::string report = (folder / "report.json").string();
  const auto made = run_program({"gptq", (data_dir() / "tiny-llama").string(), "--output", output,
                                 "--calib", calib, "--tokens", "1000", "--report", report});
  ASSERT_EQ(made.exit_code, 0) << made.err;
  EXPECT_TRUE(nlohmann::json::accept(read_file(report)));
  for (const char* command : {"inspect", "verify"}) {
    const auto result = run_program({command, "--json", output});
    EXPECT_EQ(result.exit_code, 0) << result.err;
    EXPECT_TRUE(nlohmann::json::accept(result.out)) << command;
  }
}

}  // namespace
}  // namespace cortiq::test
