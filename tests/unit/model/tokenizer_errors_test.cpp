// What Tokenizer::parse refuses: kind of the error, and that the message names the place and the
// reason.
#include <gtest/gtest.h>

#include <string>
#include <vector>

#include "cortiq/model/tokenizer.hpp"
#include "cortiq/support/error.hpp"

namespace cortiq::model {
namespace {

struct Refusal {
  const char* json;
  ErrorKind kind;
  std::vector<const char*> words;  // all must be in the message
};

void expect_refused(const Refusal& refusal) {
  const std::string json = refusal.json;
  try {
    static_cast<void>(Tokenizer::parse(std::as_bytes(std::span(json)), "t.json"));
    ADD_FAILURE() << "accepted: " << json;
  } catch (const Error& error) {
    const std::string message = error.what();
    EXPECT_EQ(error.kind(), refusal.kind) << message;
    EXPECT_EQ(message.rfind("t.json: ", 0), 0U) << message;
    for (const char* word : refusal.words) {
      EXPECT_NE(message.find(word), std::string::npos) << "no '" << word << "' in: " << message;
    }
  }
}

TEST(TokenizerErrors, a_damaged_file_is_refused_with_place_and_reason) {
  const std::vector<Refusal> refusals = {
      {"", ErrorKind::kInput, {"not JSON"}},
      {"{", ErrorKind::kInput, {"not JSON"}},
      {"[]", ErrorKind::kInput, {"expected an object"}},
      {"{}", ErrorKind::kInput, {"model", "there is no model"}},
      {R"({"model":7})", ErrorKind::kInput, {"model", "expected an object"}},
      {R"({"model":{"type":"BPE","merges":[]}})",
       ErrorKind::kInput,
       {"model.vocab", "expected an object"}},
      {R"({"model":{"type":"BPE","vocab":{"a":0}}})",
       ErrorKind::kInput,
       {"model.merges", "expected an array"}},
      {R"({"model":{"type":"BPE","vocab":{"a":0,"b":0},"merges":[]}})",
       ErrorKind::kInput,
       {"id 0", "'a'", "'b'"}},
      {R"({"model":{"type":"BPE","vocab":{"a":-1},"merges":[]}})",
       ErrorKind::kInput,
       {"out of range"}},
      {R"({"model":{"type":"BPE","vocab":{"a":1.5},"merges":[]}})",
       ErrorKind::kInput,
       {"expected an integer"}},
      {R"({"model":{"type":"BPE","vocab":{"a":18446744073709551615},"merges":[]}})",
       ErrorKind::kInput,
       {"out of range"}},
      {R"({"model":{"type":"BPE","vocab":{"a":0,"b":1},"merges":["a c"]}})",
       ErrorKind::kInput,
       {"model.merges[0]", "'c'", "not in the vocabulary"}},
      {R"({"model":{"type":"BPE","vocab":{"a":0,"b":1},"merges":[["a","b"]]}})",
       ErrorKind::kInput,
       {"model.merges[0]", "'ab'"}},
      {R"({"model":{"type":"BPE","vocab":{"a":0},"merges":["a"]}})",
       ErrorKind::kInput,
       {"no space"}},
      {R"({"model":{"type":"BPE","vocab":{"a":0},"merges":[["a"]]}})",
       ErrorKind::kInput,
       {"two tokens"}},
      {R"({"added_tokens":[{"id":1,"content":"a"}],"model":{"type":"BPE","vocab":{"a":0},"merges":[]}})",
       ErrorKind::kInput,
       {"added_tokens[0]", "id 1 here and id 0"}},
      {R"({"added_tokens":[{"id":0,"content":"b"}],"model":{"type":"BPE","vocab":{"a":0},"merges":[]}})",
       ErrorKind::kInput,
       {"added_tokens[0]", "'b'", "'a'"}},
      {R"({"added_tokens":[{"id":1,"content":""}],"model":{"type":"BPE","vocab":{"a":0},"merges":[]}})",
       ErrorKind::kInput,
       {"added_tokens[0]", "empty"}},
  };
  for (const Refusal& refusal : refusals) {
    SCOPED_TRACE(refusal.json);
    expect_refused(refusal);
  }
}

std::string with_model(const std::string& members) {
  return "{" + members + R"(,"model":{"type":"BPE","vocab":{"a":0},"merges":[]}})";
}

TEST(TokenizerErrors, a_component_that_is_not_handled_is_refused_by_name) {
  const std::vector<std::pair<std::string, const char*>> documents = {
      {R"({"model":{"type":"Unigram","vocab":[]}})", "Unigram"},
      {R"({"model":{"type":"WordPiece","vocab":{}}})", "WordPiece"},
      {R"({"model":{"type":"BPE","vocab":{"a":0},"merges":[],"end_of_word_suffix":"</w>"}})",
       "end_of_word_suffix"},
      {R"({"model":{"type":"BPE","vocab":{"a":0},"merges":[],"dropout":0.1}})", "dropout"},
      {with_model(R"("normalizer":{"type":"BertNormalizer"})"), "BertNormalizer"},
      {with_model(R"("pre_tokenizer":{"type":"UnicodeScripts"})"), "UnicodeScripts"},
      {with_model(
           R"("pre_tokenizer":{"type":"Sequence","pretokenizers":[{"type":"CharDelimiterSplit"}]})"),
       "pretokenizers[0]"},
      {with_model(R"("post_processor":{"type":"Strange"})"), "Strange"},
      {with_model(R"("decoder":{"type":"CTC"})"), "CTC"},
      {with_model(R"("pre_tokenizer":{"type":"Split","pattern":{"Regex":"("}})"),
       "cannot be compiled"},
      {with_model(R"("pre_tokenizer":{"type":"Split","pattern":{"Regex":"[a&&b]"}})"), "&&"},
      {with_model(R"("pre_tokenizer":{"type":"Split","pattern":{"Regex":"a{1,2}+"}})"), "}+"},
      {with_model(R"("pre_tokenizer":{"type":"Split","pattern":{"Regex":"\\h"}})"), "\\h"},
  };
  for (const auto& [json, name] : documents) {
    SCOPED_TRACE(json);
    expect_refused({json.c_str(), ErrorKind::kUnsupported, {name}});
  }
}

TEST(TokenizerErrors, an_expression_that_needs_too_many_steps_ends_in_an_error) {
  const std::string json = with_model(
      R"("pre_tokenizer":{"type":"Split","pattern":{"Regex":"(?:a|a)*[bc][cd]"},"behavior":"Isolated"})");
  const Tokenizer tokenizer = Tokenizer::parse(std::as_bytes(std::span(json)), "t.json");
  try {
    static_cast<void>(tokenizer.encode(std::string(200, 'a') + "bb"));
    ADD_FAILURE() << "no error";
  } catch (const Error& error) {
    EXPECT_EQ(error.kind(), ErrorKind::kUnsupported);
    EXPECT_NE(std::string(error.what()).find("pre_tokenizer"), std::string::npos) << error.what();
  }
}

}  // namespace
}  // namespace cortiq::model
