// Names that a run must not write: devices, FIFOs, links, folders, its own other files, files of the user.
#include <sys/stat.h>
#include <unistd.h>

#include <fstream>

#include "e2e.hpp"

namespace cortiq::test {
namespace fs = std::filesystem;
namespace {

std::vector<std::string> short_run(const fs::path& output, const std::vector<std::string>& extra) {
  std::vector<std::string> words{"gptq", tiny_model(), "--tokens", "64", "--quiet", "--output", output.string()};
  words.insert(words.end(), extra.begin(), extra.end());
  return words;
}

}  // namespace

TEST(Paths, what_is_no_regular_file_is_never_replaced) {
  const fs::path folder = scratch_dir("paths-special");
  const std::string fifo = (folder / "f.json").string();
  ASSERT_EQ(::mkfifo(fifo.c_str(), 0600), 0);
  std::ofstream(folder / "target") << "data";
  const std::string link = (folder / "l.json").string();
  fs::create_symlink(folder / "target", link);
  fs::create_directory(folder / "d.cmf.partial");
  for (const char* name : {"p.cmf.partial", "j.cmf.partial.journal"})
    ASSERT_EQ(::mkfifo((folder / name).c_str(), 0600), 0);
  const fs::path out = folder / "o.cmf";
  const std::vector<std::vector<std::string>> commands{
      short_run(fifo, {}), short_run(link, {}), short_run(folder / "d.cmf", {}), short_run(folder / "p.cmf", {}),
      short_run(folder / "j.cmf", {}), short_run(out, {"--report", fifo}), short_run(out, {"--recipe-out", fifo}),
      short_run(out, {"--hessians", (folder / "f").string()}), short_run(out, {"--dry-run", "--report", link}),
      {"quantize", tiny_model(), "--output", fifo}, {"quantize", tiny_model(), "--output", (folder / "d.cmf").string()},
      {"convert", tiny_model(), fifo}, {"convert", tiny_model(), (folder / "p.cmf").string()},
      {"hessians", "capture", tiny_model(), fifo, "--tokens", "64"},
      {"hessians", "capture", tiny_model(), (folder / "f").string(), "--tokens", "64"}};
  for (const auto& command : commands) {
    const ProgramResult result = expect_exit(1, command);
    const bool told = result.err.find("is not a regular file; choose another place") != std::string::npos ||
                      result.err.find("is a symbolic link; give the path") != std::string::npos ||
                      result.err.find("is a folder; give the path of a file") != std::string::npos;
    EXPECT_TRUE(told) << result.err;
  }
  EXPECT_TRUE(fs::is_fifo(fifo));
  EXPECT_TRUE(fs::is_symlink(link));
  EXPECT_EQ(read_file(folder / "target"), "data");
  EXPECT_FALSE(fs::exists(out));
}

TEST(Paths, no_name_of_a_run_is_two_things) {
  const fs::path folder = scratch_dir("paths-pairs");
  const std::string out = (folder / "o.json").string();
  const std::string cache = (folder / "c").string();
  const std::string recipe = (folder / "recipe.json").string();
  std::ofstream(recipe) << R"({"options":{"lambda":0.02}})";
  const std::vector<std::vector<std::string>> pairs{
      {"--hessians", out + ".partial"}, {"--hessians", out + ".partial.journal"}, {"--hessians", (folder / "o").string()},
      {"--recipe-out", out + ".partial"}, {"--hessians", cache, "--report", cache + ".json"},
      {"--hessians", cache, "--recipe-out", cache + ".partial"}, {"--report", out}};
  for (const auto& extra : pairs) {
    const ProgramResult result = expect_exit(2, short_run(out, extra));
    EXPECT_NE(result.err.find("choose different files"), std::string::npos) << result.err;
  }
  expect_exit(2, short_run(recipe, {"--recipe", recipe}));
  EXPECT_EQ(read_file(recipe), R"({"options":{"lambda":0.02}})");
  EXPECT_EQ(std::distance(fs::directory_iterator(folder), fs::directory_iterator()), 1);
}

TEST(Paths, an_identity_file_replaces_only_one_of_its_kind) {
  const fs::path folder = scratch_dir("paths-identity");
  const fs::path cache = folder / "imp";
  const std::vector<std::string> capture{"hessians", "capture", tiny_model(), cache.string(), "--tokens", "64"};
  for (const std::string text : {R"({"mine":1})", R"({"magic":"CMF"})", "[]", "no JSON", ""}) {
    std::ofstream(cache.string() + ".json") << text;
    for (const auto& command : {capture, short_run(folder / "o.cmf", {"--hessians", cache.string()})}) {
      const ProgramResult result = expect_exit(3, command);
      EXPECT_NE(result.err.find("imp.json: exists and is no identity file"), std::string::npos) << result.err;
    }
    EXPECT_EQ(read_file(cache.string() + ".json"), text);
    EXPECT_FALSE(fs::exists(cache));
  }
  fs::remove(cache.string() + ".json");
  expect_exit(0, capture);
  expect_exit(0, capture);  // its own is replaced
}

TEST(Paths, a_limit_on_file_sizes_is_told_and_kills_nothing) {
  const fs::path folder = scratch_dir("paths-limit");
  RunOptions limited;
  limited.file_limit = 100000;
  for (const auto& command : {short_run(folder / "o.cmf", {}),
                              {"convert", tiny_model(), (folder / "o.cmf").string(), "--quiet"}}) {
    const ProgramResult result = run_program(command, limited);
    EXPECT_TRUE(result.exit_code == 1 || result.exit_code == 3) << result.exit_code;
    EXPECT_NE(result.err.find("ulimit -f"), std::string::npos) << result.err;
  }
  EXPECT_FALSE(fs::exists(folder / "o.cmf"));
}

TEST(Paths, a_spill_folder_that_cannot_be_used_is_refused_in_the_plan) {
  const fs::path folder = scratch_dir("paths-spill");
  fs::create_directory(folder / "closed");
  fs::permissions(folder, fs::perms::all);
  fs::permissions(folder / "closed", fs::perms::owner_read | fs::perms::owner_exec | fs::perms::others_read);
  RunOptions nobody;
  nobody.as_nobody = ::geteuid() == 0;
  const std::string closed = (folder / "closed").string();
  for (const auto& command : {short_run(folder / "o.cmf", {"--spill", closed, "--dry-run"}),
                              {"hessians", "capture", tiny_model(), (folder / "c").string(), "--tokens", "64", "--spill",
                               closed}}) {
    const ProgramResult result = expect_exit(1, command, nobody);
    EXPECT_NE(result.err.find("--spill " + closed + ": no permission"), std::string::npos) << result.err;
  }
  EXPECT_FALSE(fs::exists(folder / "c"));
}

}  // namespace cortiq::test
