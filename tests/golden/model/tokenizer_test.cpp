// Tokenizer against the reference ids of the model zoo (zoo/README.md, "Tokenizers" and "Reference
// files"), and against its own contract: the result does not depend on the thread.
#include "cortiq/model/tokenizer.hpp"

#include <gtest/gtest.h>

#include <algorithm>
#include <array>
#include <filesystem>
#include <fstream>
#include <nlohmann/json.hpp>
#include <thread>
#include <vector>

#include "cortiq/support/file.hpp"
#include "data_dirs.hpp"

namespace cortiq::model {
namespace {

namespace fs = std::filesystem;

constexpr std::size_t kWindow = 256;  // tokens, zoo/README.md "Perplexity rule"
constexpr std::array<std::size_t, 2> kReferenceWindows{0, 37};  // of ids.i32

Tokenizer load_tokenizer(const fs::path& path) {
  const std::string json = read_text_file(path);
  return Tokenizer::parse(std::as_bytes(std::span(json)), path.string());
}

std::vector<fs::path> folders_with(const fs::path& parent, const fs::path& file) {
  std::vector<fs::path> found;
  if (!fs::is_directory(parent)) {
    return found;
  }
  for (const fs::directory_entry& entry : fs::directory_iterator(parent)) {
    if (fs::exists(entry.path() / file)) {
      found.push_back(entry.path());
    }
  }
  std::sort(found.begin(), found.end());
  return found;
}

// Lines of tokens_NAME.jsonl.
std::vector<nlohmann::json> reference_lines(const fs::path& folder) {
  std::ifstream file(folder.parent_path() / ("tokens_" + folder.filename().string() + ".jsonl"));
  std::vector<nlohmann::json> lines;
  for (std::string line; std::getline(file, line);) {
    lines.push_back(nlohmann::json::parse(line));
  }
  return lines;
}

TEST(TokenizerZoo, encodes_and_decodes_every_reference_string) {
  const std::vector<fs::path> folders =
      folders_with(test::zoo_dir() / "tokenizers", "tokenizer.json");
  if (folders.empty()) {
    GTEST_SKIP() << "no tokenizers below " << test::zoo_dir();
  }
  for (const fs::path& folder : folders) {
    const Tokenizer tokenizer = load_tokenizer(folder / "tokenizer.json");
    const std::vector<nlohmann::json> lines = reference_lines(folder);
    EXPECT_FALSE(lines.empty()) << folder;
    for (const nlohmann::json& line : lines) {
      const auto text = line.at("text").get<std::string>();
      SCOPED_TRACE(folder.filename().string() + ": " + line.at("text").dump());
      const auto ids = line.at("ids").get<std::vector<TokenId>>();
      EXPECT_EQ(tokenizer.encode(text), ids);
      EXPECT_EQ(tokenizer.decode(ids), line.at("decoded").get<std::string>());
    }
  }
}

TEST(TokenizerZoo, bos_is_the_token_that_the_template_adds) {
  const std::vector<fs::path> folders =
      folders_with(test::zoo_dir() / "tokenizers", "tokenizer.json");
  if (folders.empty()) {
    GTEST_SKIP() << "no tokenizers below " << test::zoo_dir();
  }
  for (const fs::path& folder : folders) {
    const Tokenizer tokenizer = load_tokenizer(folder / "tokenizer.json");
    for (const nlohmann::json& line : reference_lines(folder)) {
      auto expected = line.at("ids").get<std::vector<TokenId>>();
      if (tokenizer.bos() >= 0) {
        expected.insert(expected.begin(), tokenizer.bos());
      }
      EXPECT_EQ(line.at("ids_with_template").get<std::vector<TokenId>>(), expected) << folder;
    }
  }
}

TEST(TokenizerZoo, evaluation_windows_have_the_reference_ids) {
  const std::vector<fs::path> models = folders_with(test::zoo_dir(), "ref/ids.i32");
  if (models.empty()) {
    GTEST_SKIP() << "no models with reference ids below " << test::zoo_dir();
  }
  const std::string text = read_text_file(test::zoo_dir() / "text" / "eval.txt");
  for (const fs::path& model : models) {
    SCOPED_TRACE(model.filename().string());
    const std::vector<TokenId> ids = load_tokenizer(model / "tokenizer.json").encode(text);
    const std::string stored = read_text_file(model / "ref" / "ids.i32");
    ASSERT_EQ(stored.size(), kReferenceWindows.size() * kWindow * sizeof(TokenId));
    for (std::size_t w = 0; w < kReferenceWindows.size(); ++w) {
      const std::size_t begin = kReferenceWindows[w] * kWindow;
      ASSERT_GE(ids.size(), begin + kWindow);
      for (std::size_t i = 0; i < kWindow; ++i) {
        const auto expected = load_le<TokenId>(stored.data() + (w * kWindow + i) * sizeof(TokenId));
        ASSERT_EQ(ids[begin + i], expected) << "window " << kReferenceWindows[w] << ", token " << i;
      }
    }
  }
}

TEST(TokenizerZoo, one_tokenizer_serves_many_threads_with_equal_results) {
  const std::vector<fs::path> folders =
      folders_with(test::zoo_dir() / "tokenizers", "tokenizer.json");
  if (folders.empty()) {
    GTEST_SKIP() << "no tokenizers below " << test::zoo_dir();
  }
  const std::string text = read_text_file(test::zoo_dir() / "text" / "eval.txt").substr(0, 20000);
  for (const fs::path& folder : folders) {
    const Tokenizer tokenizer = load_tokenizer(folder / "tokenizer.json");
    const std::vector<TokenId> expected = tokenizer.encode(text);
    std::array<std::vector<TokenId>, 4> results;
    std::vector<std::thread> threads;
    for (std::vector<TokenId>& result : results) {
      threads.emplace_back([&] { result = tokenizer.encode(text); });
    }
    for (std::thread& thread : threads) {
      thread.join();
    }
    for (const std::vector<TokenId>& result : results) {
      EXPECT_EQ(result, expected) << folder;
    }
  }
}

}  // namespace
}  // namespace cortiq::model
