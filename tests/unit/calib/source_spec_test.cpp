#include <gtest/gtest.h>

#include <filesystem>
#include <fstream>
#include <numeric>

#include "cortiq/calib/corpus.hpp"
#include "cortiq/support/error.hpp"
#include "data_dirs.hpp"

namespace cortiq::calib {
namespace {

namespace fs = std::filesystem;

ErrorKind kind_of(const std::function<void()>& fn, std::string* message = nullptr) {
  try {
    fn();
  } catch (const Error& error) {
    if (message != nullptr) *message = error.what();
    return error.kind();
  }
  ADD_FAILURE() << "nothing was thrown";
  return ErrorKind::kInterrupted;
}

void write_file(const fs::path& path, std::string_view text) {
  std::ofstream(path, std::ios::binary) << text;
}

TEST(SourceSpec, explicit_share_form_is_unambiguous) {
  const SourceSpec spec = parse_source_spec("corpus=2,share=0.5");
  EXPECT_EQ(spec.path, "corpus=2");
  EXPECT_EQ(spec.share, 0.5);
  EXPECT_EQ(parse_source_spec("a.txt,share=3").path, "a.txt");
  EXPECT_EQ(parse_source_spec("x.tdata=0.5,share=1").path, "x.tdata=0.5");
}

TEST(SourceSpec, equals_sign_inside_a_folder_name_belongs_to_the_path) {
  EXPECT_EQ(parse_source_spec("dir=x/file.txt").path, "dir=x/file.txt");
  EXPECT_EQ(parse_source_spec("dir=x/file.txt").share, 1);
}

TEST(SourceSpec, bad_shares_and_paths_are_usage_errors_that_quote_the_text) {
  for (const char* text : {"", "=0.5", "a=0", "a=-1", "a=nan", "a=inf", "a=1e400", "a=1e-400",
                           "a,share=x", "a,share=", ",share=1"}) {
    std::string message;
    EXPECT_EQ(kind_of([&] { (void)parse_source_spec(text); }, &message), ErrorKind::kUsage) << text;
    EXPECT_NE(message.find(text), std::string::npos) << message;
  }
}

TEST(SourceSpec, existing_file_with_number_after_equals_is_taken_as_the_file_with_a_note) {
  const fs::path folder = test::scratch_dir("spec");
  const std::string name = (folder / "corpus=2").string();
  write_file(name, "text");
  const SourceSpec file = parse_source_spec(name);
  EXPECT_EQ(file.path, name);
  EXPECT_EQ(file.share, 1);
  EXPECT_NE(file.note.find("share=S"), std::string::npos);
  write_file(folder / "corpus", "text");
  const SourceSpec both = parse_source_spec(name);
  EXPECT_EQ(both.path, folder / "corpus");
  EXPECT_EQ(both.share, 2);
  EXPECT_FALSE(both.note.empty());
  EXPECT_TRUE(parse_source_spec((folder / "corpus").string()).note.empty());
}

TEST(SourceSpec, shares_that_overflow_together_are_a_usage_error) {
  const auto parse = [](std::initializer_list<const char*> texts) {
    std::vector<SourceSpec> sources;
    for (const char* text : texts) sources.push_back(parse_source_spec(text));
    return sources;
  };
  for (const auto& texts : {std::initializer_list<const char*>{"a=1e308", "b=1e308"},
                            {"a=1e308"},
                            {"a=1", "b=1e300"}}) {
    auto sources = parse(texts);
    std::string message;
    EXPECT_EQ(kind_of([&] { check_shares(sources); }, &message), ErrorKind::kUsage);
    EXPECT_NE(message.find("give smaller ones"), std::string::npos) << message;
  }
  auto large = parse({"a=3e280", "b=1e280", "c=5e-324"});
  check_shares(large);
  EXPECT_EQ(split_budget(std::int64_t{1} << 40, {3e280, 1e280, 5e-324}),
            (std::vector<std::int64_t>{3 * (std::int64_t{1} << 38), std::int64_t{1} << 38, 0}));
  for (const SourceSpec& source : large) EXPECT_EQ(source.note, "");
}

TEST(SourceSpec, share_of_the_only_source_has_no_effect_and_is_noted) {
  std::vector<SourceSpec> one{parse_source_spec("a.txt=0.5")};
  check_shares(one);
  EXPECT_EQ(one[0].note, "--calib a.txt: its share 0.5 has no effect, since it is the only source");
  one = {parse_source_spec("x.tdata:all=0.5")};
  check_shares(one);
  EXPECT_NE(one[0].note.find("for this share of the records write 'x.tdata:all=0.5=1'"),
            std::string::npos);
  EXPECT_NE(one[0].note.find("has no effect"), std::string::npos);
  one = {parse_source_spec("x.tdata:all=0.5=1")};
  check_shares(one);
  EXPECT_EQ(one[0].note, "");
  EXPECT_EQ(parse_source_spec("x.tdata:all=1").note, "");
}

TEST(SplitBudget, vectors_of_the_specification) {
  EXPECT_EQ(split_budget(131072, {.75, .25}), (std::vector<std::int64_t>{98304, 32768}));
  EXPECT_EQ(split_budget(32768, {1}), (std::vector<std::int64_t>{32768}));
  EXPECT_EQ(split_budget(1000, {1, 1, 1}), (std::vector<std::int64_t>{333, 334, 333}));
  EXPECT_TRUE(split_budget(1000, {}).empty());
}

TEST(SplitBudget, sums_exactly_and_never_goes_negative) {
  for (std::int64_t tokens = 2; tokens < 400; tokens += 7) {
    const auto parts = split_budget(tokens, {0.3, 1e-9, 17, 2.5, 1e9, 0.01, 3});
    EXPECT_EQ(std::accumulate(parts.begin(), parts.end(), std::int64_t{0}), tokens);
    for (const std::int64_t part : parts) EXPECT_GE(part, 0);
  }
}

TEST(CheckSources, a_text_file_below_a_teacher_folder_is_text) {
  const fs::path folder = test::scratch_dir("backup.tdata.bak");
  write_file(folder / "a.txt", "text");
  EXPECT_NO_THROW(check_sources({SourceSpec{folder / "a.txt", 1, ""}}));
}

TEST(CheckSources, teacher_data_needs_a_folder_a_known_split_and_a_manifest) {
  const fs::path folder = test::scratch_dir("set.tdata");
  const auto kind = [&](const std::string& selector, std::string* message) {
    return kind_of(
        [&] {
          check_sources({SourceSpec{folder.string() + selector, 1, ""}});
        },
        message);
  };
  std::string message;
  EXPECT_EQ(kind("", &message), ErrorKind::kIo);
  EXPECT_NE(message.find("manifest.json"), std::string::npos);
  EXPECT_EQ(kind(":bogus", &message), ErrorKind::kUsage);
  write_file(folder / "manifest.json", R"({"format":"cmf-tdata","version":1,"complete":false})");
  EXPECT_EQ(kind(":val", &message), ErrorKind::kInput);
  EXPECT_NE(message.find("not complete"), std::string::npos);
  write_file(folder / "manifest.json", R"({"format":"cmf-tdata","version":1,"complete":true})");
  EXPECT_NO_THROW(check_sources({SourceSpec{folder.string() + ":val=0.5", 1, ""}}));
}

TEST(SourceSpec, a_share_behind_teacher_data_is_explained) {
  EXPECT_NE(parse_source_spec("x.tdata=0.5").note.find("'x.tdata=0.5=1'"), std::string::npos);
  EXPECT_EQ(parse_source_spec("x.tdata=0.5=1").note, "");
  EXPECT_EQ(parse_source_spec("x.tdata=0.5=1").path, "x.tdata=0.5");
  EXPECT_EQ(parse_source_spec("x.tdata:val,share=0.5").note, "");
}

TEST(CheckSources, missing_empty_and_irregular_files_are_named) {
  const fs::path folder = test::scratch_dir("check");
  write_file(folder / "empty.txt", "");
  std::string message;
  EXPECT_EQ(kind_of(
                [&] {
                  check_sources({SourceSpec{folder / "absent.txt", 1, ""}});
                },
                &message),
            ErrorKind::kIo);
  EXPECT_NE(message.find("absent.txt"), std::string::npos);
  EXPECT_EQ(kind_of([&] {
              check_sources({SourceSpec{folder / "empty.txt", 1, ""}});
            }),
            ErrorKind::kInput);
  EXPECT_EQ(kind_of([&] { check_sources({SourceSpec{folder, 1, ""}}); }), ErrorKind::kInput);
  EXPECT_EQ(kind_of([&] { check_sources({}); }), ErrorKind::kUsage);
  EXPECT_NO_THROW(check_sources({SourceSpec{}}));
}

}  // namespace
}  // namespace cortiq::calib
