// Calibration texts, source specifications and budgets against the reference tool (golden folders
// calibtext and tables).
#include <gtest/gtest.h>

#include <cstring>
#include <filesystem>
#include <fstream>
#include <nlohmann/json.hpp>

#include "cortiq/calib/corpus.hpp"
#include "cortiq/calib/sha256.hpp"
#include "cortiq/calib/teacher.hpp"
#include "cortiq/support/error.hpp"
#include "data_dirs.hpp"

namespace cortiq::calib {
namespace {

namespace fs = std::filesystem;
using nlohmann::json;

std::optional<json> load_case(const std::string& name) {
  std::ifstream file(test::golden_dir() / name / "case.json");
  if (!file) return std::nullopt;
  return json::parse(file);
}

/// Length of a Unicode white-space character at `i`, 0 if it is none.
std::size_t space_length(std::string_view text, std::size_t i) {
  const auto byte = static_cast<unsigned char>(text[i]);
  if (byte == ' ' || (byte >= 9 && byte <= 13)) return 1;
  const std::string_view two = text.substr(i, 2);
  if (two == "\u0085" || two == "\u00A0") return 2;
  const std::string_view three = text.substr(i, 3);
  for (const char* space : {"\u1680", "\u2028", "\u2029", "\u202F", "\u205F", "\u3000"}) {
    if (three == space) return 3;
  }
  return three.size() == 3 && three >= "\u2000" && three <= "\u200A" ? 3 : 0;
}

/// The stand-in encoder of the golden file: id = byte length of the word.
std::vector<model::TokenId> encode_words(std::string_view text) {
  std::vector<model::TokenId> ids;
  model::TokenId length = 0;
  for (std::size_t i = 0; i <= text.size();) {
    const std::size_t space = i == text.size() ? 1 : space_length(text, i);
    if (space == 0) {
      ++length;
      ++i;
      continue;
    }
    if (length > 0) ids.push_back(length);
    length = 0;
    i += space;
  }
  return ids;
}

TEST(GoldenCalibText, texts_equal_the_reference) {
  const auto golden = load_case("calibtext");
  if (!golden) GTEST_SKIP() << "no golden folder calibtext";
  for (const json& item : golden->at("read_calib_text_budget")) {
    if (!item.contains("budget")) continue;  // whole-file reading belongs to another command
    const fs::path path = test::golden_dir() / "calibtext" / item.at("file").get<std::string>();
    const auto budget = item.at("budget").get<std::uint64_t>();
    SCOPED_TRACE(item.dump());
    const json& out = item.at("out");
    if (out.contains("error")) {
      EXPECT_THROW((void)read_text(path, budget), Error);
      continue;
    }
    const Text text = read_text(path, budget);
    EXPECT_EQ(text.text.size(), out.at("ok").at("nbytes").get<std::size_t>());
    EXPECT_EQ(text.exhausted, out.at("ok").at("exhausted").get<bool>());
    EXPECT_EQ(sha256_hex(text.text), out.at("ok").at("sha256").get<std::string>());
  }
}

TEST(GoldenCalibText, tokens_equal_the_reference) {
  const auto golden = load_case("calibtext");
  if (!golden) GTEST_SKIP() << "no golden folder calibtext";
  for (const json& item : golden->at("calib_source_tokens")) {
    const fs::path path = test::golden_dir() / "calibtext" / item.at("file").get<std::string>();
    const auto want = item.at("want").get<std::int64_t>();
    SCOPED_TRACE(item.dump());
    const json& out = item.at("out");
    if (out.contains("error")) {
      EXPECT_THROW((void)read_tokens(path, want, encode_words), Error);
      continue;
    }
    const std::vector<model::TokenId> ids = read_tokens(path, want, encode_words).ids;
    EXPECT_EQ(ids.size(), out.at("ok").at("n").get<std::size_t>());
    const std::string_view bytes(reinterpret_cast<const char*>(ids.data()),
                                 ids.size() * sizeof(model::TokenId));
    EXPECT_EQ(sha256_hex(bytes), out.at("ok").at("sha256").get<std::string>());
  }
}

TEST(GoldenCalibText, windows_of_teacher_data_equal_the_reference) {
  const auto golden = load_case("calibtext");
  if (!golden) GTEST_SKIP() << "no golden folder calibtext";
  NullLog log;
  for (const json& item : golden->at("tdata_calib_windows")) {
    SCOPED_TRACE(item.dump().substr(0, 200));
    const fs::path path = test::golden_dir() / "calibtext" / item.at("spec").get<std::string>();
    const json& out = item.at("out");
    if (out.contains("error")) {
      EXPECT_THROW((void)read_teacher(parse_teacher_selector(path.string()), {}, log), Error);
      continue;
    }
    for (const bool verify : {true, false}) {
      TeacherOptions options;
      options.tokens = item.at("want").get<std::int64_t>();
      options.window = item.at("window").get<std::int64_t>();
      options.verify = verify;
      const TeacherWindows read =
          read_teacher(parse_teacher_selector(path.string()), options, log);
      std::vector<std::int64_t> lengths;
      for (std::int64_t i = 0; i < read.windows.count(); ++i)
        lengths.push_back(read.windows.length(i));
      EXPECT_EQ(lengths, out.at("ok").at("windows").get<std::vector<std::int64_t>>());
      EXPECT_EQ(read.sha256, out.at("ok").at("sha256").get<std::string>());
    }
  }
}

TEST(GoldenTables, selectors_of_teacher_data_equal_the_reference) {
  const auto golden = load_case("tables");
  if (!golden) GTEST_SKIP() << "no golden folder tables";
  for (const json& item : golden->at("tdata_selector_parse")) {
    const auto text = item.at("in").get<std::string>();
    SCOPED_TRACE(text);
    const json& out = item.at("out");
    if (out.contains("error")) {
      EXPECT_THROW((void)parse_teacher_selector(text), Error);
      continue;
    }
    const TeacherSelector selector = parse_teacher_selector(text);
    EXPECT_EQ(selector.folder.string(), out.at("ok").at("root").get<std::string>());
    EXPECT_EQ(selector.split, out.at("ok").at("split").get<std::string>());
    EXPECT_EQ(selector.share_numerator, out.at("ok").at("share_num").get<std::uint64_t>());
    EXPECT_EQ(selector.share_denominator, out.at("ok").at("share_den").get<std::uint64_t>());
  }
}

TEST(GoldenTables, source_specifications_equal_the_reference) {
  const auto golden = load_case("tables");
  if (!golden) GTEST_SKIP() << "no golden folder tables";
  for (const json& item : golden->at("calib_source_parse")) {
    const auto text = item.at("in").get<std::string>();
    SCOPED_TRACE(text);
    if (item.at("out").contains("error")) {
      EXPECT_THROW((void)parse_source_spec(text), Error);
      continue;
    }
    const SourceSpec spec = parse_source_spec(text);
    EXPECT_EQ(spec.path.string(), item.at("out").at("ok").at("path").get<std::string>());
    EXPECT_EQ(spec.share, item.at("out").at("ok").at("share").get<double>());
  }
}

TEST(GoldenTables, budgets_equal_the_reference) {
  const auto golden = load_case("tables");
  if (!golden) GTEST_SKIP() << "no golden folder tables";
  for (const json& item : golden->at("split_calib_budget")) {
    SCOPED_TRACE(item.dump());
    EXPECT_EQ(split_budget(item.at("tokens").get<std::int64_t>(),
                           item.at("shares").get<std::vector<double>>()),
              item.at("out").get<std::vector<std::int64_t>>());
  }
}

}  // namespace
}  // namespace cortiq::calib
