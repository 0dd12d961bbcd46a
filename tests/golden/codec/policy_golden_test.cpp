// Names, globs, overrides and profiles against the tables of the reference.
#include <gtest/gtest.h>

#include <map>
#include <tuple>

#include "cortiq/codec/policy.hpp"
#include "cortiq/support/error.hpp"
#include "golden_case.hpp"

namespace cortiq::codec {
namespace {

using nlohmann::json;

class PolicyGolden : public ::testing::Test {
 protected:
  void SetUp() override {
    const auto found = test::golden_cases("tables");
    if (found.empty()) GTEST_SKIP() << "no golden tables below " << test::golden_dir();
    tables_ = test::GoldenCase(found.front()).json();
  }
  json tables_;
};

TEST_F(PolicyGolden, GlobsMatch) {
  for (const json& row : tables_["glob_match"]) {
    EXPECT_EQ(glob_match(row[0].get<std::string>(), row[1].get<std::string>()), row[2].get<bool>())
        << row;
  }
}

TEST_F(PolicyGolden, CodecNamesParse) {
  for (const json& row : tables_["parse_quant"]) {
    const auto codec = try_parse_codec(row["in"].get<std::string>());
    const std::string expected = row["out"].value("ok", "");
    if (expected.empty() || expected == "fp4" || expected == "q2tp_affine") {
      EXPECT_FALSE(codec.has_value())
          << row;  // the last two are profiles for whole files, not codecs
    } else {
      ASSERT_TRUE(codec.has_value()) << row;
      EXPECT_EQ(codec_name(*codec), expected);
    }
  }
}

TEST_F(PolicyGolden, OverridesParse) {
  for (const json& row : tables_["parse_tensor_quant"]) {
    const std::string text = row["in"];
    if (row["out"].contains("error")) {
      EXPECT_THROW(static_cast<void>(parse_override(text)), Error) << row;
      continue;
    }
    const TensorOverride parsed = parse_override(text);
    EXPECT_EQ(parsed.pattern, row["out"]["ok"][0].get<std::string>());
    EXPECT_EQ(codec_name(parsed.codec), row["out"]["ok"][1].get<std::string>());
  }
}

TEST_F(PolicyGolden, ForcedFloatNamesMatch) {
  for (const json& row : tables_["tensor_names"]) {
    EXPECT_EQ(keeps_float(row["name"].get<std::string>()), row["keeps_float"].get<bool>()) << row;
  }
}

TEST_F(PolicyGolden, ProfilesChooseTheReferenceCodecs) {
  std::map<std::tuple<std::string, std::string, std::string>, std::string> differing;
  for (const json& row : tables_["effective_quant"]) differing[{row[0], row[1], row[2]}] = row[3];
  for (const json& arch : tables_["effective_quant_archs"]) {
    ModelTraits model;
    model.arch_name = arch.get<std::string>();
    for (const std::string profile :
         {"q8", "q8_2f", "q4", "q4t", "q4tp", "q2tp", "f16", "vbit", "q1", "mxfp4", "fp4"}) {
      for (const json& row : tables_["tensor_names"]) {
        const std::string name = row["name"];
        const auto found = differing.find({model.arch_name, profile, name});
        const std::string expected = found == differing.end() ? profile : found->second;
        const Codec codec = profile == "fp4"
                                ? fp4_profile_codec(name, model)
                                : profile_codec(*try_parse_codec(profile), name, model);
        EXPECT_EQ(codec_name(codec), expected) << model.arch_name << " " << profile << " " << name;
      }
    }
  }
}

TEST_F(PolicyGolden, FirstMatchingOverrideWins) {
  const json& table = tables_["override_table"];
  std::vector<TensorOverride> overrides;
  for (const json& text : table["overrides"])
    overrides.push_back(parse_override(text.get<std::string>()));
  ModelTraits model;
  model.arch_name = table["arch"];
  const Codec profile = *try_parse_codec(table["profile"].get<std::string>());
  for (const json& row : table["out"]) {
    const std::string name = row[0];
    const Codec codec =
        override_codec(overrides, name).value_or(profile_codec(profile, name, model));
    EXPECT_EQ(codec_name(codec), row[1].get<std::string>()) << name;
  }
}

}  // namespace
}  // namespace cortiq::codec
