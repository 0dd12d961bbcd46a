// Chunks of a Hessian cache: names and members against the existing tool (golden folders chunks-*).
#include "../../../src/pipeline/hessian_files.hpp"

#include <gtest/gtest.h>

#include <fstream>

#include "data_dirs.hpp"

namespace cortiq::pipeline {
namespace {

TEST(HessianFiles, one_file_without_chunks_and_names_with_the_layers_otherwise) {
  const HessianFiles whole("c.hess", 0, 5);
  ASSERT_EQ(whole.files().size(), 1U);
  EXPECT_EQ(whole.files()[0].path, "c.hess");
  EXPECT_EQ(whole.file_of(4), 0U);
  EXPECT_FALSE(whole.serve_all());
  const HessianFiles pairs("c.hess", 2, 5);
  ASSERT_EQ(pairs.files().size(), 3U);
  EXPECT_EQ(pairs.files()[1].path, "c.hess.L2-3");
  EXPECT_EQ(pairs.files()[2].path, "c.hess.L4-5") << "named after the chunk, not the last layer";
  EXPECT_EQ(pairs.file_of(3), 1U);
  EXPECT_EQ(pairs.file_of(5), 2U) << "the head's input is known behind the last layer";
}

TEST(HessianFiles, a_file_that_holds_some_layers_says_which_of_how_many) {
  const HessianFiles pairs("c.hess", 2, 5);
  EXPECT_EQ(pairs.layers_of(0).numbers, (std::vector<std::int64_t>{0, 1}));
  EXPECT_EQ(pairs.layers_of(2).numbers, std::vector<std::int64_t>{4});
  EXPECT_EQ(pairs.layers_of(2).count, 5);
  EXPECT_TRUE(HessianFiles("c.hess", 0, 5).layers_of(0).whole());
  EXPECT_TRUE(HessianFiles("c.hess", 7, 5).layers_of(0).whole());
}

TEST(HessianFiles, chunks_hold_the_layers_that_the_existing_tools_hold) {
  const auto folders = test::golden_cases("chunks-");
  if (folders.empty()) GTEST_SKIP() << "no golden folder: " << test::golden_dir();
  for (const auto& folder : folders) {
    nlohmann::json json;
    std::ifstream(folder / "case.json") >> json;
    std::int64_t layers = 0;
    for (const auto& name : json["tensors"])
      layers = std::max(layers, model::layer_in_name(name.get<std::string>()).value_or(-1) + 1);
    for (const auto& chunk : json["chunks"]) {
      const std::int64_t size = chunk["chunk_layers"];
      const HessianFiles files("p", size, layers);
      SCOPED_TRACE(folder.filename().string() + " " + std::to_string(size));
      ASSERT_EQ(files.files().size(), chunk["out"].size());
      for (std::size_t i = 0; i < chunk["out"].size(); ++i) {
        const auto& expected = chunk["out"][i];
        EXPECT_EQ(files.files()[i].first, expected[0].get<std::int64_t>());
        if (expected[1].is_number()) {
          EXPECT_EQ(files.files()[i].last, expected[1].get<std::int64_t>());
        }
        for (const auto& tensor : expected[2]) {
          const std::string name = json["tensors"][tensor.get<std::size_t>()];
          const auto layer = model::layer_in_name(name);
          if (layer) {
            EXPECT_EQ(files.file_of(*layer), i);
          }
        }
      }
    }
  }
}

}  // namespace
}  // namespace cortiq::pipeline
