#include "cortiq/calib/corpus.hpp"

#include <gtest/gtest.h>

#include <filesystem>
#include <fstream>

#include "cortiq/calib/sha256.hpp"
#include "cortiq/support/error.hpp"
#include "data_dirs.hpp"
#include "stand_in.hpp"

namespace cortiq::calib {
namespace {

namespace fs = std::filesystem;

/// `count` words whose lengths are 1..9 over and over.
std::string words(int count) {
  std::string text;
  for (int i = 0; i < count; ++i)
    text += std::string(static_cast<std::size_t>(1 + i % 9), 'w') + "\n";
  return text;
}

class CorpusTest : public testing::Test {
 protected:
  SourceSpec make(const std::string& name, std::string_view text, double share = 1) {
    std::ofstream(folder_ / name, std::ios::binary) << text;
    return {folder_ / name, share, ""};
  }
  Corpus load(const std::vector<SourceSpec>& sources, CorpusOptions options) {
    return load_corpus(sources, options, test::encode_words, log_);
  }
  std::string warnings() const {
    std::string all;
    for (const auto& [level, line] : log_.lines) {
      if (level == LogLevel::kWarning) all += line + "\n";
    }
    return all;
  }
  fs::path folder_ = test::scratch_dir("corpus");
  MemoryLog log_;
};

TEST_F(CorpusTest, windows_do_not_span_sources_and_follow_their_order) {
  const Corpus corpus = load({make("a.txt", words(500), 3), make("b.txt", words(500), 1)},
                             {.tokens = 100, .window = 40});
  ASSERT_EQ(corpus.windows.count(), 3);
  EXPECT_EQ(corpus.windows.length(0), 40);
  EXPECT_EQ(corpus.windows.length(1), 35);
  EXPECT_EQ(corpus.windows.length(2), 25);
  EXPECT_EQ(corpus.windows.window(1)[0], 1 + 40 % 9);
  EXPECT_EQ(corpus.windows.window(2)[0], 1);
  EXPECT_EQ(corpus.sources[0].tokens_wanted, 75);
  EXPECT_EQ(corpus.sources[1].tokens_used, 25);
  EXPECT_EQ(corpus.sources[1].file, "b.txt");
  EXPECT_EQ(corpus.sources[0].sha256, sha256_hex(words(500)));
  EXPECT_EQ(warnings(), "");
}

TEST_F(CorpusTest, last_window_of_one_token_is_dropped_and_counted) {
  const Corpus corpus = load({make("a.txt", words(500))}, {.tokens = 81, .window = 40});
  EXPECT_EQ(corpus.windows.count(), 2);
  EXPECT_EQ(corpus.sources[0].tokens_used, 80);
  EXPECT_EQ(corpus.sources[0].tokens_dropped, 1);
  EXPECT_NE(warnings().find("80 calibration tokens of the 81 wanted"), std::string::npos)
      << warnings();
}

TEST_F(CorpusTest, begin_token_opens_each_window_and_counts_as_one_of_its_tokens) {
  const Corpus corpus = load({make("a.txt", words(500))}, {.tokens = 100, .window = 40, .bos = 77});
  ASSERT_EQ(corpus.windows.count(), 3);
  EXPECT_EQ(corpus.windows.tokens(), 100);
  for (std::int64_t i = 0; i < 3; ++i) EXPECT_EQ(corpus.windows.window(i)[0], 77);
  EXPECT_EQ(corpus.windows.window(1)[1], 1 + 39 % 9);
  EXPECT_EQ(corpus.windows.length(2), 20);
  EXPECT_EQ(corpus.sources[0].tokens_used, 100);
}

TEST_F(CorpusTest, window_below_two_is_two) {
  EXPECT_EQ(load({make("a.txt", words(50))}, {.tokens = 10, .window = 0}).windows.count(), 5);
}

TEST_F(CorpusTest, short_source_is_a_warning_with_both_numbers) {
  const Corpus corpus = load({make("a.txt", words(40))}, {.tokens = 1000, .window = 16});
  EXPECT_EQ(corpus.windows.tokens(), 40);
  EXPECT_EQ(corpus.tokens_wanted, 1000);
  EXPECT_NE(warnings().find("gave 40 calibration tokens of the 1000 wanted"), std::string::npos)
      << warnings();
}

TEST_F(CorpusTest, skipped_lines_and_bad_utf8_are_reported_with_line_numbers) {
  const Corpus corpus =
      load({make("a.jsonl", "\"a b c\"\n{}\n\"d\"\nx\n"), make("b.txt", "a b\n\xFF c\n")},
           {.tokens = 100});
  EXPECT_EQ(corpus.sources[0].lines_skipped, 2);
  EXPECT_EQ(corpus.sources[0].skipped_line_numbers, (std::vector<std::int64_t>{2, 4}));
  EXPECT_EQ(corpus.sources[1].invalid_line_numbers, (std::vector<std::int64_t>{2}));
  EXPECT_NE(warnings().find("2 lines hold no text"), std::string::npos) << warnings();
  EXPECT_NE(warnings().find("2, 4"), std::string::npos);
}

TEST_F(CorpusTest, no_window_at_all_is_refused) {
  try {
    (void)load({make("a.txt", "word")}, {.tokens = 100});
    FAIL();
  } catch (const Error& error) {
    EXPECT_EQ(error.kind(), ErrorKind::kRefused);
    EXPECT_NE(std::string(error.what()).find("too few tokens"), std::string::npos);
  }
}

TEST_F(CorpusTest, file_without_text_is_named) {
  try {
    (void)load({make("a.jsonl", "{}\n\n{}\n")}, {.tokens = 100});
    FAIL();
  } catch (const Error& error) {
    EXPECT_EQ(error.kind(), ErrorKind::kInput);
    EXPECT_NE(std::string(error.what()).find("a.jsonl"), std::string::npos);
  }
}

TEST_F(CorpusTest, empty_path_is_the_built_in_text) {
  const Corpus corpus = load({SourceSpec{}}, {.tokens = 32768, .window = 512});
  EXPECT_EQ(corpus.sources[0].file, "built-in");
  EXPECT_EQ(corpus.sources[0].sha256, sha256_hex(builtin_corpus()));
  EXPECT_EQ(corpus.windows.tokens(), 32768);
  EXPECT_EQ(corpus.windows.count(), 64);
}

TEST_F(CorpusTest, note_of_a_source_is_logged) {
  SourceSpec spec = make("a.txt", words(40));
  spec.note = "read as a file";
  (void)load({spec}, {.tokens = 20});
  ASSERT_FALSE(log_.lines.empty());
  EXPECT_EQ(log_.lines.front().second, "read as a file");
}

TEST(BuiltinCorpus, holds_the_committed_text) {
  std::ifstream file(fs::path(test::data_dir()) / "../../data/calibration.txt", std::ios::binary);
  const std::string text((std::istreambuf_iterator<char>(file)), std::istreambuf_iterator<char>());
  ASSERT_FALSE(text.empty());
  EXPECT_EQ(builtin_corpus(), text);
}

TEST(Sha256, known_digests_and_pieces) {
  EXPECT_EQ(sha256_hex(""), "e3b0c44298fc1c149afbf4c8996fb92427ae41e4649b934ca495991b7852b855");
  EXPECT_EQ(sha256_hex("abc"), "ba7816bf8f01cfea414140de5dae2223b00361a396177a9cb410ff61f20015ad");
  const std::string text(3000000, 'a');
  const fs::path path = test::scratch_dir("sha") / "file";
  std::ofstream(path, std::ios::binary) << text;
  EXPECT_EQ(sha256_file(path), sha256_hex(text));
}

}  // namespace
}  // namespace cortiq::calib
