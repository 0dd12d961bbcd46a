// Tokenizer on small tokenizer.json documents made here: what each component does, and the merge
// order against a plain quadratic reference.
#include "cortiq/model/tokenizer.hpp"

#include <gtest/gtest.h>

#include <map>
#include <nlohmann/json.hpp>
#include <random>
#include <set>
#include <string>
#include <vector>

#include "cortiq/support/error.hpp"

namespace cortiq::model {
namespace {

using Json = nlohmann::json;

Tokenizer parse(const Json& document) {
  const std::string text = document.dump();
  return Tokenizer::parse(std::as_bytes(std::span(text)), "test.json");
}

Json bpe(const std::vector<std::string>& tokens, const Json& merges = Json::array()) {
  Json vocab = Json::object();
  for (std::size_t i = 0; i < tokens.size(); ++i) {
    vocab[tokens[i]] = i;
  }
  return {{"type", "BPE"}, {"vocab", vocab}, {"merges", merges}};
}

std::vector<std::string> characters_of(const std::string& text) {
  std::set<std::string> found;
  for (std::size_t i = 0; i < text.size();) {
    std::size_t end = i + 1;
    while (end < text.size() && (static_cast<unsigned char>(text[end]) & 0xC0U) == 0x80U) {
      ++end;
    }
    found.insert(text.substr(i, end - i));
    i = end;
  }
  return {found.begin(), found.end()};
}

// With ignore_merges and no merges a piece is one token exactly if it is in the vocabulary, so a
// vocabulary of the expected pieces and of all single characters shows where the text was cut.
void expect_pieces(Json document, const std::string& text, const std::vector<std::string>& pieces) {
  std::vector<std::string> tokens = characters_of(text);
  for (const std::string& piece : pieces) {
    for (const std::string& token : characters_of(piece)) {
      tokens.push_back(token);
    }
    tokens.push_back(piece);
  }
  const std::set<std::string> unique(tokens.begin(), tokens.end());
  document["model"] = bpe({unique.begin(), unique.end()});
  document["model"]["ignore_merges"] = true;
  const Tokenizer tokenizer = parse(document);
  std::vector<std::string> found;
  for (const TokenId id : tokenizer.encode(text)) {
    found.push_back(tokenizer.decode(std::vector<TokenId>{id}));
  }
  EXPECT_EQ(found, pieces) << document.value("pre_tokenizer", Json()).dump();
}

Json split(const Json& pattern, const std::string& behavior, bool invert = false) {
  return {{"pre_tokenizer",
           {{"type", "Split"}, {"pattern", pattern}, {"behavior", behavior}, {"invert", invert}}}};
}

TEST(Tokenizer, splits_with_every_behavior) {
  const Json dash = {{"String", "-"}};
  const std::string text = "the-final--countdown";
  expect_pieces(split(dash, "Removed"), text, {"the", "final", "countdown"});
  expect_pieces(split(dash, "Isolated"), text, {"the", "-", "final", "-", "-", "countdown"});
  expect_pieces(split(dash, "MergedWithPrevious"), text, {"the-", "final-", "-", "countdown"});
  expect_pieces(split(dash, "MergedWithNext"), text, {"the", "-final", "-", "-countdown"});
  expect_pieces(split(dash, "Contiguous"), text, {"the", "-", "final", "--", "countdown"});
}

TEST(Tokenizer, an_inverted_split_takes_the_text_between_the_matches) {
  const Json word = {{"Regex", R"(\w+)"}};
  expect_pieces(split(word, "Removed", true), "ab, cd!", {"ab", "cd"});
  expect_pieces(split(word, "Removed", false), "ab, cd!", {", ", "!"});
}

TEST(Tokenizer, looks_ahead_and_sees_unicode_classes) {
  const Json pattern = {{"Regex", R"(\s+(?!\S)|\s+|\p{L}+|\p{N}{1,3})"}};
  expect_pieces(split(pattern, "Isolated"), "Да   нет1234", {"Да", "  ", " ", "нет", "123", "4"});
}

TEST(Tokenizer, white_space_is_the_unicode_property) {
  // U+180E is none since Unicode 6.3; U+0085 and U+3000 are.
  expect_pieces(split({{"Regex", R"(\s)"}}, "Removed"), "a\u0085b\u3000c\u180Ed",
                {"a", "b", "c\u180Ed"});
  expect_pieces(split({{"Regex", R"([^\S\n]+)"}}, "Removed"), "a \t\nb", {"a", "\nb"});
}

TEST(Tokenizer, digits_are_split_one_by_one_or_as_runs) {
  const auto digits = [](bool individual) {
    return Json{{"pre_tokenizer", {{"type", "Digits"}, {"individual_digits", individual}}}};
  };
  expect_pieces(digits(true), "a12b", {"a", "1", "2", "b"});
  expect_pieces(digits(false), "a12b", {"a", "12", "b"});
}

TEST(Tokenizer, metaspace_marks_spaces_by_scheme) {
  const auto metaspace = [](const std::string& scheme, bool cut) {
    return Json{{"pre_tokenizer",
                 {{"type", "Metaspace"},
                  {"replacement", "▁"},
                  {"prepend_scheme", scheme},
                  {"split", cut}}}};
  };
  expect_pieces(metaspace("always", true), "ab cd", {"▁ab", "▁cd"});
  expect_pieces(metaspace("never", true), "ab cd", {"ab", "▁cd"});
  expect_pieces(metaspace("always", false), "ab cd", {"▁ab▁cd"});
  expect_pieces(metaspace("always", true), " ab", {"▁ab"});
}

Json added(TokenId id, const std::string& content, const std::string& flag = "special") {
  Json token = {{"id", id}, {"content", content}, {"normalized", false}, {"special", true}};
  token[flag] = true;
  return token;
}

TEST(Tokenizer, metaspace_first_marks_the_begin_of_the_text_only) {
  Json document = {{"model", bpe({"a", "▁a", "▁"}, Json::array({"▁ a"}))},
                   {"added_tokens", {added(3, "<x>")}}};
  document["pre_tokenizer"] = {
      {"type", "Metaspace"}, {"replacement", "▁"}, {"prepend_scheme", "first"}};
  EXPECT_EQ(parse(document).encode("a<x>a"), (std::vector<TokenId>{1, 3, 0}));
  document["pre_tokenizer"]["prepend_scheme"] = "always";
  EXPECT_EQ(parse(document).encode("a<x>a"), (std::vector<TokenId>{1, 3, 1}));
}

TEST(Tokenizer, the_longest_added_token_at_the_earliest_place_wins) {
  const Json document = {{"model", bpe({"<", "x", "y"})},
                         {"added_tokens", {added(3, "<x"), added(4, "<xy<"), added(5, "y<<")}}};
  const Tokenizer tokenizer = parse(document);
  EXPECT_EQ(tokenizer.encode("<xy<<x<xyx"), (std::vector<TokenId>{4, 3, 3, 2, 1}));
  EXPECT_EQ(tokenizer.size(), 6);
}

TEST(Tokenizer, added_tokens_honour_their_flags) {
  const auto ids = [](const std::string& flag, const std::string& text) {
    return parse({{"model", bpe({"a", " ", "T"})}, {"added_tokens", {added(3, "TT", flag)}}})
        .encode(text);
  };
  EXPECT_EQ(ids("lstrip", "a  TT a"), (std::vector<TokenId>{0, 3, 1, 0}));
  EXPECT_EQ(ids("rstrip", "a TT  a"), (std::vector<TokenId>{0, 1, 3, 0}));
  EXPECT_EQ(ids("single_word", "aTT TT TTa"), (std::vector<TokenId>{0, 2, 2, 1, 3, 1, 2, 2, 0}));
}

TEST(Tokenizer, a_normalized_added_token_is_found_behind_the_normalizer) {
  Json document = {{"model", bpe({"a", "x"})}, {"normalizer", {{"type", "Lowercase"}}}};
  document["added_tokens"] = {added(2, "XX", "normalized")};
  EXPECT_EQ(parse(document).encode("AxX"), (std::vector<TokenId>{0, 2}));
  document["added_tokens"] = {added(2, "XX")};
  EXPECT_EQ(parse(document).encode("AxX"), (std::vector<TokenId>{0, 1, 1}));
}

TEST(Tokenizer, normalizers_compose_and_decompose) {
  const auto ids = [](const std::string& type, const std::string& text) {
    return parse({{"model", bpe({"é", "e", "\u0301", "\u0323", "1", "²"})},
                  {"normalizer", {{"type", type}}}})
        .encode(text);
  };
  EXPECT_EQ(ids("NFC", "e\u0301"), (std::vector<TokenId>{0}));
  EXPECT_EQ(ids("NFD", "é²"), (std::vector<TokenId>{1, 2, 5}));
  EXPECT_EQ(ids("NFD", "e\u0301\u0323"),
            (std::vector<TokenId>{1, 3, 2}));  // marks in canonical order
  EXPECT_EQ(ids("NFKC", "\u00B9"), (std::vector<TokenId>{4}));
}

TEST(Tokenizer, unknown_characters_fall_back_to_bytes_then_to_the_unknown_token) {
  Json model = bpe({"a", "<unk>", "<0xC3>", "<0xA9>"});
  model["unk_token"] = "<unk>";
  model["byte_fallback"] = true;
  EXPECT_EQ(parse({{"model", model}}).encode("aéßßa"), (std::vector<TokenId>{0, 2, 3, 1, 1, 0}));
  model["fuse_unk"] = true;
  EXPECT_EQ(parse({{"model", model}}).encode("aéßßa"), (std::vector<TokenId>{0, 2, 3, 1, 0}));
  model["unk_token"] = nullptr;
  EXPECT_EQ(parse({{"model", model}}).encode("aßa"), (std::vector<TokenId>{0, 0}));
}

TEST(Tokenizer, invalid_utf8_reads_as_replacement_characters) {
  const Tokenizer tokenizer = parse({{"model", bpe({"a", "\uFFFD"})}});
  EXPECT_EQ(tokenizer.encode("a\xFF"
                             "a"),
            (std::vector<TokenId>{0, 1, 0}));
  EXPECT_EQ(tokenizer.encode("\xE2\x82"
                             "a"),
            (std::vector<TokenId>{1, 0}));  // one maximal subpart
  EXPECT_EQ(tokenizer.encode("\xED\xA0\x80"), (std::vector<TokenId>{1, 1, 1}));  // a surrogate
  EXPECT_EQ(tokenizer.encode("\xF0\x90"), (std::vector<TokenId>{1}));
}

TEST(Tokenizer, decoders_join_bytes_and_strip_the_first_space) {
  Json document = {{"model", bpe({"▁a", "<0xC3>", "<0xA9>", "b"})}};
  document["decoder"] = {{"type", "Sequence"},
                         {"decoders",
                          {{{"type", "Replace"}, {"pattern", {{"String", "▁"}}}, {"content", " "}},
                           {{"type", "ByteFallback"}},
                           {{"type", "Fuse"}},
                           {{"type", "Strip"}, {"content", " "}, {"start", 1}, {"stop", 0}}}}};
  const Tokenizer tokenizer = parse(document);
  EXPECT_EQ(tokenizer.decode(std::vector<TokenId>{0, 0, 1, 2, 3}), "a aéb");
  EXPECT_EQ(tokenizer.decode(std::vector<TokenId>{1, 3}),
            "\uFFFD"
            "b");
  EXPECT_THROW(static_cast<void>(tokenizer.decode(std::vector<TokenId>{4})), Error);
}

// The definition, one merge at a time over the whole piece.
std::vector<TokenId> merge_plainly(
    std::vector<std::string> symbols, const std::map<std::string, TokenId>& ids,
    const std::map<std::pair<std::string, std::string>, int>& ranks) {
  while (true) {
    int best = INT32_MAX;
    std::size_t at = 0;
    for (std::size_t i = 0; i + 1 < symbols.size(); ++i) {
      const auto found = ranks.find({symbols[i], symbols[i + 1]});
      if (found != ranks.end() && found->second < best) {
        best = found->second;
        at = i;
      }
    }
    if (best == INT32_MAX) {
      break;
    }
    symbols[at] += symbols[at + 1];
    symbols.erase(symbols.begin() + static_cast<std::ptrdiff_t>(at) + 1);
  }
  std::vector<TokenId> result;
  for (const std::string& symbol : symbols) {
    result.push_back(ids.at(symbol));
  }
  return result;
}

TEST(Tokenizer, merges_as_the_plain_definition_for_short_and_long_pieces) {
  constexpr int kTokens = 80;
  constexpr int kTexts = 24;
  std::mt19937 random(7);
  for (int round = 0; round < 4; ++round) {
    std::vector<std::string> tokens{"a", "b", "c", "d"};
    std::map<std::string, TokenId> ids{{"a", 0}, {"b", 1}, {"c", 2}, {"d", 3}};
    std::map<std::pair<std::string, std::string>, int> ranks;
    Json merges = Json::array();
    while (tokens.size() < kTokens) {
      const std::string left = tokens[random() % tokens.size()];
      const std::string right = tokens[random() % tokens.size()];
      if (left.size() + right.size() > 8 || ids.count(left + right) != 0) {
        continue;
      }
      ids[left + right] = static_cast<TokenId>(tokens.size());
      tokens.push_back(left + right);
      ranks.emplace(std::pair(left, right), static_cast<int>(merges.size()));
      merges.push_back({left, right});
    }
    const Tokenizer tokenizer = parse({{"model", bpe(tokens, merges)}});
    for (int k = 0; k < kTexts; ++k) {
      std::vector<std::string> symbols(1 + random() % (k % 2 == 0 ? 20 : 200));
      std::string text;
      for (std::string& symbol : symbols) {
        symbol = std::string(1, static_cast<char>('a' + random() % 4));
        text += symbol;
      }
      ASSERT_EQ(tokenizer.encode(text), merge_plainly(symbols, ids, ranks))
          << "round " << round << ": " << text;
    }
  }
}

TEST(Tokenizer, a_character_that_vanishes_lets_its_neighbours_merge) {
  const Tokenizer tokenizer = parse({{"model", bpe({"a", "b", "ab"}, Json::array({"a b"}))}});
  EXPECT_EQ(tokenizer.encode("a?b"), (std::vector<TokenId>{2}));
}

TEST(Tokenizer, both_spellings_of_merges_mean_the_same) {
  const std::vector<std::string> tokens{"a", "b", "ab"};
  EXPECT_EQ(parse({{"model", bpe(tokens, Json::array({"a b"}))}}).encode("abab"),
            (std::vector<TokenId>{2, 2}));
  EXPECT_EQ(parse({{"model", bpe(tokens, Json::array({Json::array({"a", "b"})}))}}).encode("abab"),
            (std::vector<TokenId>{2, 2}));
}

}  // namespace
}  // namespace cortiq::model
