#include "cortiq/cmf/header.hpp"

#include <gtest/gtest.h>

#include <cmath>

#include "cortiq/support/error.hpp"
#include "raw_file.hpp"

namespace cortiq::cmf {
namespace {

/// Message of the kInput error that parsing must give.
std::string refusal(const std::string& text) {
  try {
    (void)Header::parse(text, "m.cmf");
  } catch (const Error& error) {
    EXPECT_EQ(error.kind(), ErrorKind::kInput);
    return error.what();
  }
  ADD_FAILURE() << "accepted: " << text.substr(0, 200);
  return {};
}

void expect_mentions(const std::string& message, const std::string& part) {
  EXPECT_NE(message.find("m.cmf: header"), std::string::npos) << message;
  EXPECT_NE(message.find(part), std::string::npos) << message;
}

TEST(Header, AcceptsTheSmallestHeader) {
  const Header header = Header::parse(test::minimal_header().dump(), "m.cmf");
  EXPECT_EQ(header.arch_name(), "llama");
  EXPECT_EQ(header.arch().at("hidden_size"), 32);
  EXPECT_EQ(Header().arch_name(), "");
  EXPECT_TRUE(Header().arch().empty());
}

TEST(Header, KeepsUnknownKeysOrderAndNumbers) {
  Json json = test::minimal_header();
  json["zz_unknown"] =
      Json::parse(R"({"b":[1,2.5,null],"a":18446744073709551615,"neg":-9223372036854775808})");
  json["arch"]["another"] = "\u00e9\u4e2d";
  json["provenance"] = Json::parse(
      R"({"tool":"x","tiny":5e-324,"third":0.333333333333333314829616256247,"one":1.0})");
  const std::string text = json.dump();
  const Header header = Header::parse(text, "m.cmf");
  EXPECT_EQ(header.dump(), text);
  EXPECT_EQ(header.json()["zz_unknown"]["a"].get<std::uint64_t>(), 18446744073709551615ULL);
  EXPECT_EQ(header.json()["provenance"]["third"].get<double>(), 1.0 / 3.0);
  EXPECT_EQ(header.json()["provenance"]["tiny"].get<double>(), std::nextafter(0.0, 1.0));
  EXPECT_TRUE(header.json()["provenance"]["one"].is_number_float());
}

TEST(Header, DoublesSurviveTextBitForBit) {
  std::uint64_t state = 12345;
  for (int i = 0; i < 2000; ++i) {
    state = state * 6364136223846793005ULL + 1442695040888963407ULL;
    double value = 0;
    std::memcpy(&value, &state, sizeof value);
    if (!std::isfinite(value)) continue;
    Json json = test::minimal_header();
    json["x"] = value;
    const double back = Header::parse(json.dump(), "m.cmf").json()["x"].get<double>();
    ASSERT_EQ(std::memcmp(&back, &value, sizeof value), 0) << value;
  }
}

TEST(Header, NamesEachMissingRequiredKey) {
  for (const char* key : {"version", "arch", "quant_type"}) {
    Json json = test::minimal_header();
    json.erase(key);
    expect_mentions(refusal(json.dump()), std::string("key ") + key + " is missing");
  }
  for (const char* key : {"arch_name", "hidden_size", "intermediate_size", "num_layers",
                          "num_attention_heads", "num_kv_heads", "head_dim", "vocab_size",
                          "layer_types", "rms_norm_eps", "max_position_embeddings"}) {
    Json json = test::minimal_header();
    json["arch"].erase(key);
    expect_mentions(refusal(json.dump()), std::string("key arch.") + key + " is missing");
  }
}

TEST(Header, NamesKeysOfTheWrongType) {
  Json json = test::minimal_header();
  json["arch"]["num_layers"] = 2.0;
  expect_mentions(refusal(json.dump()), "arch.num_layers must be an unsigned integer, is 2.0");
  json = test::minimal_header();
  json["arch"]["sliding_window"] = -5;
  expect_mentions(refusal(json.dump()), "arch.sliding_window must be an unsigned integer, is -5");
  json = test::minimal_header();
  json["version"] = 4294967296ULL;
  expect_mentions(refusal(json.dump()), "version must be an unsigned 32-bit integer");
  json = test::minimal_header();
  json["arch"]["moe"] = {{"num_experts", 4}, {"top_k", "2"}, {"moe_intermediate_size", 8}};
  expect_mentions(refusal(json.dump()), "arch.moe.top_k must be an unsigned integer");
  json = test::minimal_header();
  json["arch"]["rope_freq_factors"] = {1.0, "x"};
  expect_mentions(refusal(json.dump()), "arch.rope_freq_factors must be an array of numbers");
  expect_mentions(refusal("[1,2]"), "must be a JSON object");
}

TEST(Header, OptionalKeysMayBeNull) {
  Json json = test::minimal_header();
  json["arch"]["linear_conv_kernel_dim"] = nullptr;
  json["skills"] = nullptr;
  EXPECT_NO_THROW((void)Header::parse(json.dump(), "m.cmf"));
}

TEST(Header, ChecksEnums) {
  Json json = test::minimal_header();
  json["quant_type"] = "Q3";
  expect_mentions(refusal(json.dump()), "quant_type is \"Q3\", must be one of Q8_ROW");
  json = test::minimal_header();
  json["arch"]["layer_types"][1] = "Odd";
  expect_mentions(refusal(json.dump()), "arch.layer_types[1] is \"Odd\"");
  json = test::minimal_header();
  json["arch"]["norm_style"] = "bert";
  expect_mentions(refusal(json.dump()), "arch.norm_style is \"bert\"");
}

TEST(Header, ChecksRulesBetweenKeys) {
  Json json = test::minimal_header();
  json["arch"]["layer_types"].push_back("FullAttention");
  expect_mentions(refusal(json.dump()), "arch.layer_types has 3 entries but arch.num_layers is 2");
  json = test::minimal_header();
  json["arch"]["layer_types"][0] = "BoundedAttention";
  expect_mentions(refusal(json.dump()), "arch.anchor_core");
  json = test::minimal_header();
  json["arch"]["linear_core"] = {
      {"kind", "gated_delta_net"}, {"num_heads", 2}, {"phase_delta_layers", {1}}};
  expect_mentions(refusal(json.dump()), "phase_delta_layers");
}

TEST(Header, RefusesKnownKeysThatAppearTwice) {
  const std::string text = test::minimal_header().dump();
  expect_mentions(refusal("{\"version\":2," + text.substr(1)), "key version appears twice");
  std::string inner = text;
  inner.insert(inner.find("\"hidden_size\""), "\"hidden_size\":8,");
  expect_mentions(refusal(inner), "key arch.hidden_size appears twice");
  EXPECT_NO_THROW((void)Header::parse("{\"x\":1,\"x\":2," + text.substr(1), "m.cmf"));
  EXPECT_NO_THROW(
      (void)Header::parse("{\"provenance\":{\"arch\":1,\"arch\":2}," + text.substr(1), "m.cmf"));
}

TEST(Header, RefusesTextThatIsNoJson) {
  for (const std::string text :
       {"", "{", "{\"a\":1}x", "{\"a\":\"\xff\"}", "nul", "{\"a\":01}", "{\"a\":1e999}"}) {
    expect_mentions(refusal(text), "is not valid JSON");
  }
}

TEST(Header, RefusesDeepNestingInsteadOfOverflowingTheStack) {
  const std::string deep = "{\"x\":" + std::string(100000, '[');
  expect_mentions(refusal(deep), "nested deeper than");
}

TEST(Header, DumpOfTextThatIsNotUtf8IsAnError) {
  Header header(test::minimal_header());
  header.json()["provenance"] = "\xff\xfe";
  EXPECT_THROW((void)header.dump(), Error);
}

}  // namespace
}  // namespace cortiq::cmf
