// --calib-chunk-layers: cache files by layers, in every mixture of what is there and what is not.
#include "e2e.hpp"

namespace cortiq::test {
namespace fs = std::filesystem;

class Chunks : public testing::Test {
 protected:
  void SetUp() override {
    folder_ = scratch_dir("chunks");
    cache_ = folder_ / "c.hess";
    short_gptq(folder_ / "whole.cmf", {"--hessians", (folder_ / "whole.hess").string()});
    expected_ = tensor_hashes(folder_ / "whole.cmf");
  }

  std::vector<std::string> chunks(int layers) const {
    return {"--hessians", cache_.string(), "--calib-chunk-layers", std::to_string(layers)};
  }
  fs::path chunk(int first, int last) const {
    return cache_.string() + ".L" + std::to_string(first) + "-" + std::to_string(last);
  }
  /// Runs with chunks of this size; the weights must be those of the run without.
  std::string run(int layers) {
    short_gptq(folder_ / "o.cmf", chunks(layers));
    EXPECT_EQ(tensor_hashes(folder_ / "o.cmf"), expected_);
    const auto provenance = header_of(folder_ / "o.cmf")["provenance"]["gptq"];
    EXPECT_EQ(provenance["calib_chunk_layers"], layers);
    return provenance["hessians"];
  }

  fs::path folder_;
  fs::path cache_;
  std::map<std::string, std::string> expected_;
};

TEST_F(Chunks, files_are_written_by_layers_and_read_again) {
  EXPECT_EQ(run(3), "captured");
  EXPECT_TRUE(fs::exists(chunk(0, 2)));
  EXPECT_TRUE(fs::exists(chunk(3, 5)));
  EXPECT_FALSE(fs::exists(cache_));
  EXPECT_TRUE(run(3).starts_with("cache "));
  expect_exit(0, {"hessians", "inspect", chunk(0, 2).string()});
}

TEST_F(Chunks, what_is_missing_is_captured_beside_what_is_there) {
  run(1);
  const std::string bytes = read_file(chunk(1, 1));
  for (const int missing : {0, 1, 3}) {
    fs::remove(chunk(missing, missing));
    EXPECT_TRUE(run(1).starts_with("captured, cache ")) << missing;
    EXPECT_TRUE(fs::exists(chunk(missing, missing)));
  }
  EXPECT_TRUE(read_file(chunk(1, 1)) == bytes);
}

TEST_F(Chunks, a_whole_file_serves_any_chunks) {
  cache_ = folder_ / "whole.hess";
  for (const int layers : {1, 2, 3, 9}) EXPECT_TRUE(run(layers).starts_with("cache ")) << layers;
  EXPECT_FALSE(fs::exists(chunk(0, 0)));
}

TEST_F(Chunks, a_chunk_of_another_text_is_refused_when_the_rest_would_be_captured) {
  run(2);
  fs::remove(chunk(2, 3));
  const ProgramResult result = expect_exit(
      3, {"gptq", tiny_model(), "--output", (folder_ / "x.cmf").string(), "--tokens", "2048",
          "--window", "256", "--hessians", cache_.string(), "--calib-chunk-layers", "2",
          "--quiet"});
  EXPECT_NE(result.err.find("c.hess.L0-1"), std::string::npos) << result.err;
  EXPECT_FALSE(fs::exists(folder_ / "x.cmf"));
}

TEST_F(Chunks, the_option_needs_a_cache_and_its_files_are_no_outputs) {
  EXPECT_NE(short_gptq(folder_ / "x.cmf", {"--calib-chunk-layers", "2"}, 2).err.find("--hessians"),
            std::string::npos);
  EXPECT_NE(short_gptq(chunk(0, 1), chunks(2), 2).err.find("Hessian cache"), std::string::npos);
}

TEST_F(Chunks, an_interrupted_run_leaves_finished_chunks_and_continues) {
  short_gptq(folder_ / "chunked.cmf", chunks(1));
  const std::string bytes = read_file(folder_ / "chunked.cmf");
  for (int last : {0, 1, 2, 3}) {
    for (int layer = last; layer < 4; ++layer) fs::remove(chunk(layer, layer));
    std::vector<std::string> extra = chunks(1);
    extra.emplace_back("--resume");
    for (int ms = 40; ms < 400; ms += 90) {
      RunOptions options;
      options.interrupt_after_ms = ms;
      options.interrupt_signal = 9;
      std::vector<std::string> arguments{"gptq", tiny_model(), "--output",
                                         (folder_ / "r.cmf").string(), "--calib", eval_text(),
                                         "--tokens", "2048", "--window", "256", "--quiet"};
      arguments.insert(arguments.end(), extra.begin(), extra.end());
      run_program(arguments, options);
    }
    short_gptq(folder_ / "r.cmf", extra);
    EXPECT_EQ(tensor_hashes(folder_ / "r.cmf"), expected_) << last;
    for (const auto& entry : fs::directory_iterator(folder_))
      EXPECT_NE(entry.path().extension(), ".partial") << entry.path();
    fs::remove(folder_ / "r.cmf");
  }
}

}  // namespace cortiq::test
