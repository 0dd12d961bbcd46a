// Names of a run: which pairs of them are refused.
#include "../../../src/pipeline/run_paths.hpp"

#include <gtest/gtest.h>

#include <fstream>
#include <functional>

#include "cortiq/support/error.hpp"
#include "data_dirs.hpp"

namespace cortiq::pipeline {
namespace {

namespace fs = std::filesystem;

std::optional<ErrorKind> kind_of(const std::function<void(RunPaths&)>& fill) {
  RunPaths paths;
  fill(paths);
  try {
    paths.check();
  } catch (const Error& error) {
    return error.kind();
  }
  return std::nullopt;
}

TEST(RunPaths, every_name_of_an_output_is_its_own) {
  const fs::path folder = test::scratch_dir("run-paths");
  const fs::path out = folder / "o";
  for (const char* name : {"o", "o.partial", "o.partial.journal"}) {
    EXPECT_EQ(kind_of([&](RunPaths& paths) {
                paths.writes_model(out);
                paths.writes_cache(folder / "." / name);
              }),
              ErrorKind::kUsage)
        << name;
  }
  EXPECT_EQ(kind_of([&](RunPaths& paths) {
              paths.writes_model(folder / "c.json");
              paths.writes_cache(folder / "c");
            }),
            ErrorKind::kUsage);
  EXPECT_EQ(kind_of([&](RunPaths& paths) {
              paths.writes_model(out);
              paths.writes_cache(folder / "c");
              paths.writes(folder / "r.json", "report");
            }),
            std::nullopt);
}

TEST(RunPaths, an_input_is_found_under_any_link_and_may_be_named_twice) {
  const fs::path folder = test::scratch_dir("run-paths-links");
  std::ofstream(folder / "in") << "data";
  fs::create_hard_link(folder / "in", folder / "hard");
  EXPECT_EQ(kind_of([&](RunPaths& paths) {
              paths.reads(folder / "in", "input file");
              paths.writes(folder / "hard", "report");
            }),
            ErrorKind::kUsage);
  EXPECT_EQ(kind_of([&](RunPaths& paths) {
              paths.reads(folder / "in", "input file");
              paths.reads(folder / "hard", "input file");
            }),
            std::nullopt);
  EXPECT_EQ(kind_of([&](RunPaths& paths) {
              paths.reads(folder / "in", "input file");
              paths.reads(folder / "in", "Hessian cache");
            }),
            ErrorKind::kUsage);
}

}  // namespace
}  // namespace cortiq::pipeline
