#include "cortiq/calib/text.hpp"

#include <gtest/gtest.h>

#include <filesystem>
#include <fstream>

#include "cortiq/support/error.hpp"
#include "data_dirs.hpp"
#include "stand_in.hpp"

namespace cortiq::calib {
namespace {

namespace fs = std::filesystem;

fs::path make_file(const std::string& name, std::string_view text) {
  const fs::path path = test::scratch_dir("text-" + name) / name;
  std::ofstream(path, std::ios::binary) << text;
  return path;
}

TEST(PlainText, budget_of_100_bytes_ends_with_a_newline_and_is_not_exhausted) {
  std::string text;
  for (int i = 0; i < 40; ++i) text += "line number " + std::to_string(i) + "\n";
  const Text cut = read_text(make_file("a.txt", text), 100);
  EXPECT_FALSE(cut.exhausted);
  EXPECT_EQ(cut.text.back(), '\n');
  EXPECT_LE(cut.text.size(), 100U);
  EXPECT_EQ(text.compare(0, cut.text.size(), cut.text), 0);
}

TEST(PlainText, newline_further_back_than_4096_bytes_is_not_used) {
  const std::string line(5000, 'x');
  EXPECT_EQ(cut_text("ab\n" + line, 4099).text.size(), 3U + 4096U);
  EXPECT_EQ(cut_text("ab\n" + line, 4098).text, "ab\n");
}

TEST(PlainText, cut_inside_a_character_drops_its_bytes) {
  EXPECT_EQ(cut_text("a\xC3\xA9", 2).text, "a");
  EXPECT_EQ(cut_text("a\xF0\x9F\x99\x82", 4).text, "a");
  const Text whole = cut_text("a\xC3\xA9", 3);
  EXPECT_EQ(whole.text, "a\xC3\xA9");
  EXPECT_TRUE(whole.exhausted);
}

TEST(PlainText, byte_order_mark_is_dropped_and_line_ends_stay) {
  const Text text = read_text(make_file("bom.txt", "\xEF\xBB\xBFone\r\n\r\ntwo"), 1000);
  EXPECT_EQ(text.text, "one\r\n\r\ntwo");
  EXPECT_TRUE(text.exhausted);
}

TEST(PlainText, utf16_is_refused) {
  EXPECT_THROW((void)read_text(make_file("u16.txt", std::string_view("\xFF\xFE"
                                                                     "a\0",
                                                                     4)),
                               100),
               Error);
}

TEST(PlainText, invalid_utf8_becomes_replacement_characters_with_line_numbers) {
  const Text text = read_text(make_file("bad.txt", "ok\n\xFFx\nok\n\xE6\x97y\xED\xA0\x80\n"), 1000);
  // E6 97 is one cut sequence; the surrogate ED A0 80 has no valid part longer than a byte.
  EXPECT_EQ(text.text, "ok\n\uFFFDx\nok\n\uFFFDy\uFFFD\uFFFD\uFFFD\n");
  EXPECT_EQ(text.invalid.count, 5);
  EXPECT_EQ(text.invalid.numbers, (std::vector<std::int64_t>{2, 4}));
}

TEST(JsonLines, vector_of_the_specification) {
  const Text text = read_text(
      make_file("a.jsonl",
                "{\"text\":\"alpha beta\"}\n\"gamma\"\n{\"other\":1}\n{\"text\":\"delta\"}"),
      1000);
  EXPECT_EQ(text.text, "alpha beta\ngamma\ndelta\n");
  EXPECT_TRUE(text.exhausted);
  EXPECT_EQ(text.skipped.count, 1);
  EXPECT_EQ(text.skipped.numbers, (std::vector<std::int64_t>{3}));
}

TEST(JsonLines, blank_lines_crlf_bom_and_broken_lines_are_counted) {
  const Text text = read_text(
      make_file("b.jsonl",
                "\xEF\xBB\xBF\"a\"\r\n\r\n  \nnot json\n{\"text\":5}\n\"\xFF\"\n\"b\"\r\n\n"),
      1000);
  EXPECT_EQ(text.text, "a\nb\n");
  EXPECT_EQ(text.blank_lines, 3);
  EXPECT_EQ(text.skipped.numbers, (std::vector<std::int64_t>{4, 5, 6}));
}

TEST(JsonLines, stops_behind_the_line_that_reaches_the_budget) {
  const Text text = read_text(make_file("c.jsonl", "\"abc\"\n\"def\"\n\"ghi\"\n"), 8);
  EXPECT_EQ(text.text, "abc\ndef\n");
  EXPECT_FALSE(text.exhausted);
}

TEST(JsonLines, conversations_are_rendered_and_refusals_are_counted) {
  const fs::path path = make_file(
      "chat.jsonl",
      "[{\"role\":\"user\",\"content\":\"a\"}]\n\"plain\"\n{\"messages\":[{\"role\":\"bad\"}]}\n"
      "{\"messages\":[{\"role\":\"user\",\"content\":\"b\"}]}\n{\"messages\":5}\n"
      "{\"text\":\"t\",\"messages\":[]}\n[1]\n");
  const RenderChat chat = [](std::string_view conversation) -> ChatText {
    if (conversation.find("bad") != std::string_view::npos) return {{}, "no such role"};
    return {"<" + std::to_string(conversation.size()) + ">", {}};
  };
  const Text text = read_text(path, 1000, chat);
  EXPECT_EQ(text.text, "<31>plain\n<44>t\n");
  EXPECT_EQ(text.refused.numbers, std::vector<std::int64_t>{3});
  EXPECT_EQ(text.refusal, "no such role");
  EXPECT_EQ(text.skipped.numbers, (std::vector<std::int64_t>{5, 7}));
  try {
    (void)read_text(path, 1000);
    FAIL() << "was read without a template";
  } catch (const Error& error) {
    EXPECT_EQ(error.kind(), ErrorKind::kUnsupported);
    EXPECT_NE(std::string(error.what()).find("line 1"), std::string::npos);
  }
}

TEST(JsonLines, only_the_first_ten_line_numbers_are_kept) {
  std::string lines;
  for (int i = 0; i < 30; ++i) lines += "{}\n";
  const Text text = read_text(make_file("d.jsonl", lines + "\"x\"\n"), 100);
  EXPECT_EQ(text.skipped.count, 30);
  EXPECT_EQ(text.skipped.numbers.size(), Findings::kMaxNumbers);
  EXPECT_EQ(text.skipped.numbers.back(), 10);
}

TEST(JsonLines, line_longer_than_a_read_piece_is_whole) {
  const std::string line(700000, 'y');
  EXPECT_EQ(read_text(make_file("e.jsonl", "\"a\"\n\"" + line + "\"\n\"b\""), 1 << 21).text,
            "a\n" + line + "\nb\n");
}

TEST(Json, strings_and_strings_of_nested_arrays_are_taken) {
  const Text text = read_text(
      make_file("a.json", R"(["a",["b",3,null,["no"],"c"],{"text":"no","x":["no"]},7,"d"])"), 1000);
  EXPECT_EQ(text.text, "a\nb\nc\nd\n");
  EXPECT_TRUE(text.exhausted);
  EXPECT_EQ(text.skipped.numbers, (std::vector<std::int64_t>{3, 4}));
}

TEST(Json, stops_behind_the_item_that_reaches_the_budget) {
  const Text text = read_text(make_file("b.json", R"([["a","b"],"c"])"), 1);
  EXPECT_EQ(text.text, "a\nb\n");
  EXPECT_FALSE(text.exhausted);
}

TEST(Json, damage_behind_the_budget_is_an_error_with_its_line) {
  const fs::path path = make_file("c.json", "[\"a\",\n\"b\",\n oops]");
  try {
    (void)read_text(path, 1);
    FAIL();
  } catch (const Error& error) {
    EXPECT_EQ(error.kind(), ErrorKind::kInput);
    EXPECT_NE(std::string(error.what()).find("line 3"), std::string::npos) << error.what();
  }
}

TEST(Json, top_level_object_has_no_text) {
  const Text text = read_text(make_file("d.json", R"({"text":"x","more":["y"]})"), 10);
  EXPECT_TRUE(text.text.empty());
  EXPECT_EQ(text.skipped.count, 1);
}

TEST(ReadTokens, gives_exactly_the_first_700_and_all_where_more_are_wanted) {
  std::string text;
  for (int i = 0; i < 3000; ++i)
    text += std::string(static_cast<std::size_t>(1 + i % 23), 'w') + (i % 9 == 0 ? "\n" : " ");
  const fs::path path = make_file("words.txt", text);
  const std::vector<model::TokenId> all = test::encode_words(text);
  ASSERT_EQ(all.size(), 3000U);
  EXPECT_EQ(read_tokens(path, 700, test::encode_words).ids,
            std::vector<model::TokenId>(all.begin(), all.begin() + 700));
  EXPECT_EQ(read_tokens(path, 100000, test::encode_words).ids, all);
  EXPECT_EQ(read_tokens(std::string_view(text), 700, test::encode_words).ids.size(), 700U);
  EXPECT_TRUE(read_tokens(path, 0, test::encode_words).ids.empty());
}

TEST(ReadTokens, large_file_is_not_read_whole) {
  const fs::path path = make_file("large.txt", "one two three four\n");
  fs::resize_file(path, std::uintmax_t{8} << 30);  // sparse
  std::size_t longest = 0;
  const auto encode = [&](std::string_view text) {
    longest = std::max(longest, text.size());
    return std::vector<model::TokenId>(text.size() / 4, 1);
  };
  EXPECT_EQ(read_tokens(path, 1000, encode).ids.size(), 1000U);
  EXPECT_LE(longest, 8000U);
}

}  // namespace
}  // namespace cortiq::calib
