// `hessians merge` of chunk files: the same bytes as without chunks, through capture, merge and GPTQ.
#include "e2e.hpp"

namespace cortiq::test {
namespace fs = std::filesystem;

class MergeChunks : public testing::Test {
 protected:
  void SetUp() override { folder_ = scratch_dir("merge-chunks"); }
  std::string path(const std::string& name) const { return (folder_ / name).string(); }
  void capture(const std::string& name, const std::vector<std::string>& extra = {},
               const std::string& tokens = "2048") {
    std::vector<std::string> arguments{"hessians", "capture",  tiny_model(), path(name), "--calib",
                                       eval_text(), "--tokens", tokens,      "--window", "256",
                                       "--quiet"};
    arguments.insert(arguments.end(), extra.begin(), extra.end());
    expect_exit(0, arguments);
  }
  ProgramResult merge(const std::vector<std::string>& inputs, const std::string& output,
                      int code = 0) {
    std::vector<std::string> arguments{"hessians", "merge"};
    for (const std::string& input : inputs) arguments.push_back(path(input));
    arguments.push_back(path(output));
    return expect_exit(code, arguments);
  }
  /// Bytes of the model that GPTQ makes of these Hessians.
  std::string model_from(const std::string& cache) {
    short_gptq(folder_ / "model.cmf", {"--hessians", path(cache)});
    return read_file(folder_ / "model.cmf");
  }
  void expect_same_cache(const std::string& a, const std::string& b) const {
    EXPECT_TRUE(read_file(path(a)) == read_file(path(b))) << a << ", " << b;
    EXPECT_EQ(read_file(path(a + ".json")), read_file(path(b + ".json")));
  }
  fs::path folder_;
};

TEST_F(MergeChunks, captured_chunks_become_the_whole_cache_and_the_same_model) {
  capture("whole");
  const std::string model = model_from("whole");
  for (const char* layers : {"1", "3"}) {
    const std::string base = std::string("c") + layers;
    capture(base, {"--calib-chunk-layers", layers});
    EXPECT_FALSE(fs::exists(path(base)));
    merge({base}, base + "-merged");
    expect_same_cache("whole", base + "-merged");
    EXPECT_TRUE(model_from(base + "-merged") == model);
  }
  EXPECT_TRUE(fs::exists(path("c3.L3-5")));
  merge({"c3.L3-5", "c3.L0-2"}, "reversed");
  expect_same_cache("whole", "reversed");
}

TEST_F(MergeChunks, chunks_that_gptq_wrote_become_the_cache_that_it_writes_without) {
  short_gptq(folder_ / "a.cmf", {"--hessians", path("whole")});
  short_gptq(folder_ / "b.cmf", {"--hessians", path("c"), "--calib-chunk-layers", "2"});
  merge({"c"}, "merged");
  expect_same_cache("whole", "merged");
  EXPECT_TRUE(model_from("merged") == model_from("whole"));
}

TEST_F(MergeChunks, parts_in_chunks_add_up_to_what_parts_add_up_to) {
  std::vector<std::string> whole, chunked;
  for (const std::string part : {"1", "2", "3"}) {
    capture("p" + part, {"--part", part + "/3"});
    capture("q" + part, {"--part", part + "/3", "--calib-chunk-layers", "2"});
    whole.push_back("p" + part);
    chunked.push_back("q" + part);
  }
  merge(whole, "sum");
  merge(chunked, "sum-of-chunks");
  expect_same_cache("sum", "sum-of-chunks");
  EXPECT_TRUE(model_from("sum-of-chunks") == model_from("sum"));
}

TEST_F(MergeChunks, a_chunk_too_many_too_few_or_of_another_run_is_said) {
  capture("c", {"--calib-chunk-layers", "2"});
  fs::copy(path("c.L0-1"), path("copy"));
  fs::copy(path("c.L0-1.json"), path("copy.json"));
  EXPECT_NE(merge({"c", "copy"}, "x", 3).err.find("count twice"), std::string::npos);
  EXPECT_NE(merge({"c.L0-1", "c"}, "x", 2).err.find("named twice"), std::string::npos);
  capture("d", {"--calib-chunk-layers", "2"}, "1024");
  const ProgramResult foreign = merge({"c.L0-1", "d.L2-3"}, "x", 3);
  EXPECT_NE(foreign.err.find("tokens: 2048 here, 1024 in the cache"), std::string::npos)
      << foreign.err;
  EXPECT_FALSE(fs::exists(path("x")));
  fs::remove(path("c.L2-3"));
  const ProgramResult half = merge({"c"}, "half");
  EXPECT_NE(half.err.find("no chunk holds layers 2, 3 of the model's 4"), std::string::npos)
      << half.err;
  const ProgramResult inspected = expect_exit(0, {"hessians", "inspect", path("half"), "--quick"});
  EXPECT_NE(inspected.out.find("layers 0, 1 of 4"), std::string::npos) << inspected.out;
  short_gptq(folder_ / "x.cmf", {"--hessians", path("half")}, 3);
  // The output is no chunk of an input.
  EXPECT_NE(merge({"d"}, "d.L0-1", 2).err.find("d.L0-1"), std::string::npos);
}

}  // namespace cortiq::test
