// A small set is written here record by record; each test damages one thing.
#include "cortiq/calib/teacher.hpp"

#include <gtest/gtest.h>

#include <functional>
#include <nlohmann/json.hpp>

#include "cache_files.hpp"
#include "cortiq/calib/sha256.hpp"
#include "cortiq/support/error.hpp"
#include "data_dirs.hpp"

namespace cortiq::calib {
namespace {

namespace fs = std::filesystem;
using nlohmann::json;

struct Row {
  json record;
  std::uint64_t offset = 0;
  std::uint32_t total = 0, prompt = 0, think = 0, answer = 0;
  std::uint64_t topk = ~std::uint64_t{0};
  std::uint32_t flags = 1;
  std::uint8_t split = 0;
  std::uint32_t padding = 0;  // 24 bits
};

/// Three records of 6, 4 and 5 tokens with ids 0, 1, 2, ...: train, val (unusable), train.
struct TeacherSet {
  std::vector<Row> rows;
  std::vector<std::uint32_t> tokens;
  json manifest{{"format", "cmf-tdata"}, {"version", 1}, {"complete", true}};
  std::vector<json> prompts;
  std::string records_suffix;

  TeacherSet() {
    add("a", 6, 0, true);
    add("b", 4, 1, false);
    add("c", 5, 0, true);
    rows[2].topk = 77;
    rows[2].record["topk"] = {{"offset", 77}, {"positions", 4}};
    manifest["stats"]["records"] = 3;
    manifest["prompts"]["count"] = 3;
    manifest["input"]["format"] = "jsonl-v1";
  }
  void add(const std::string& name, std::uint32_t total, std::uint8_t split, bool usable) {
    constexpr const char* kSplits[] = {"train", "val", "test"};
    Row row;
    row.offset = tokens.size();
    row.total = total;
    row.prompt = 1;
    row.think = 1;
    row.answer = total - 2;
    row.split = split;
    row.flags = usable ? 1 : 8;
    row.record = {
        {"rid", name + "#0"},
        {"pid", name},
        {"sample", 0},
        {"split", kSplits[split]},
        {"usable", usable},
        {"messages", json::array({{{"role", "user"}, {"content", "q"}}})},
        {"response", {{"think", nullptr}, {"content", "a"}}},
        {"tok",
         {{"index", rows.size()},
          {"offset", row.offset},
          {"prompt", row.prompt},
          {"think", row.think},
          {"answer", row.answer},
          {"total", total}}},
        {"topk", nullptr},
        {"quality", {{"truncated", false}, {"loop_suspect", false}, {"check", {{"pass", usable}}}}}};
    rows.push_back(row);
    for (std::uint32_t i = 0; i < total; ++i)
      tokens.push_back(static_cast<std::uint32_t>(tokens.size()));
    prompts.push_back({{"id", name},
                       {"split", kSplits[split]},
                       {"messages", json::array({{{"role", "user"}, {"content", "q"}}})}});
  }

  fs::path write(bool hashes = true) {
    const fs::path folder = test::scratch_dir("teacher") / "t.tdata";
    fs::create_directories(folder);
    std::string records;
    test::CacheBytes index, bin;
    for (const Row& row : rows) {
      records += row.record.dump() + "\n";
      index.put(row.offset).put(row.total).put(row.prompt).put(row.think).put(row.answer);
      index.put(row.topk).put(row.flags).put(row.split | (row.padding << 8));
    }
    for (const std::uint32_t id : tokens) bin.put(id);
    std::string prompt_lines;
    for (const json& prompt : prompts) prompt_lines += prompt.dump() + "\n";
    put(folder, "records.jsonl", records + records_suffix, hashes);
    put(folder, "tokens.idx", index.bytes, hashes);
    put(folder, "tokens.bin", bin.bytes, hashes);
    put(folder, "prompts.jsonl", prompt_lines, hashes);
    test::write_bytes(folder / "manifest.json", manifest.dump());
    return folder;
  }

 private:
  void put(const fs::path& folder, const std::string& name, const std::string& bytes, bool hashes) {
    test::write_bytes(folder / name, bytes);
    if (hashes) {
      manifest["files"][name] = {{"bytes", bytes.size()}, {"sha256", sha256_hex(bytes)}};
    }
  }
};

TeacherWindows read(const fs::path& folder, const std::string& selector, TeacherOptions options) {
  NullLog log;
  return read_teacher(parse_teacher_selector(folder.string() + selector), options, log);
}

/// Message of the error, in both modes where `always`.
void expect_error(TeacherSet set, std::string_view part, bool always = true) {
  const fs::path folder = set.write();
  for (const bool verify : {true, false}) {
    if (!verify && !always) {
      EXPECT_NO_THROW((void)read(folder, ":all", {.tokens = 3, .verify = false}));
      continue;
    }
    try {
      (void)read(folder, ":all", {.tokens = 1000, .vocab = 15, .verify = verify});
      ADD_FAILURE() << "was read; expected: " << part;
    } catch (const Error& error) {
      EXPECT_EQ(error.kind(), ErrorKind::kInput) << error.what();
      EXPECT_NE(std::string(error.what()).find(part), std::string::npos) << error.what();
    }
  }
}

TEST(Teacher, records_are_cut_into_windows_of_their_own) {
  const fs::path folder = TeacherSet().write();
  const TeacherWindows all = read(folder, "", {.tokens = 100, .window = 4, .vocab = 15});
  ASSERT_EQ(all.windows.count(), 3);
  EXPECT_EQ(all.records, 2);
  EXPECT_EQ(all.windows.ids, (std::vector<model::TokenId>{0, 1, 2, 3, 4, 5, 10, 11, 12, 13}));
  EXPECT_EQ(read(folder, "", {.tokens = 7, .window = 4}).windows.tokens(), 8);
  EXPECT_EQ(read(folder, "", {.tokens = 0}).windows.count(), 0);
  EXPECT_THROW((void)read(folder, ":val", {.tokens = 0}), Error);
}

TEST(Teacher, a_share_keeps_records_by_the_hash_of_their_name) {
  TeacherSelector half = parse_teacher_selector("x.tdata=0.5");
  TeacherSelector tenth = parse_teacher_selector("x.tdata=0.100");
  int kept = 0;
  int kept_of_tenth = 0;
  for (int i = 0; i < 2000; ++i) {
    const std::string rid = "r" + std::to_string(i);
    kept += half.keeps(rid) ? 1 : 0;
    kept_of_tenth += tenth.keeps(rid) ? 1 : 0;
    EXPECT_TRUE(parse_teacher_selector("x.tdata").keeps(rid));
    EXPECT_TRUE(!tenth.keeps(rid) || half.keeps(rid));
  }
  EXPECT_NEAR(kept, 1000, 100);
  EXPECT_NEAR(kept_of_tenth, 200, 60);
}

TEST(Teacher, every_disagreement_of_a_row_is_found) {
  const std::vector<std::pair<std::string, std::function<void(TeacherSet&)>>> damages{
      {"tok.index", [](TeacherSet& s) { s.rows[1].record["tok"]["index"] = 2; }},
      {"tok.offset", [](TeacherSet& s) { s.rows[1].record["tok"]["offset"] = 7; }},
      {"begin at 7", [](TeacherSet& s) {
         s.rows[1].record["tok"]["offset"] = s.rows[1].offset = 7;
       }},
      {"counts in tok", [](TeacherSet& s) { s.rows[1].record["tok"]["answer"] = 9; }},
      {"is not total", [](TeacherSet& s) {
         s.rows[1].record["tok"]["prompt"] = s.rows[1].prompt = 2;
       }},
      {"split differs", [](TeacherSet& s) { s.rows[1].split = 0; }},
      {"split differs", [](TeacherSet& s) { s.rows[1].split = 3; }},
      {"usable differs", [](TeacherSet& s) { s.rows[0].flags = 0; }},
      {"unknown flags", [](TeacherSet& s) { s.rows[0].flags = 17; }},
      {"end in zeros", [](TeacherSet& s) { s.rows[0].padding = 0x10000; }},
      {"quality.truncated", [](TeacherSet& s) { s.rows[0].flags = 3; }},
      {"quality.loop_suspect", [](TeacherSet& s) {
         s.rows[0].record["quality"]["loop_suspect"] = true;
       }},
      {"quality.check", [](TeacherSet& s) { s.rows[1].record["quality"] = nullptr; }},
      {"although its check failed", [](TeacherSet& s) {
         s.rows[0].flags = 9;
         s.rows[0].record["quality"]["check"] = false;
       }},
      {"topk is in only one", [](TeacherSet& s) { s.rows[0].topk = 3; }},
      {"topk.offset", [](TeacherSet& s) { s.rows[2].topk = 3; }},
      {"topk.positions", [](TeacherSet& s) { s.rows[2].record["topk"]["positions"] = 5; }},
      {"rid", [](TeacherSet& s) { s.rows[0].record["rid"] = ""; }},
      {"pid", [](TeacherSet& s) { s.rows[0].record.erase("pid"); }},
      {"sample", [](TeacherSet& s) { s.rows[0].record["sample"] = -1; }},
      {"usable", [](TeacherSet& s) { s.rows[0].record["usable"] = 1; }},
      {"messages", [](TeacherSet& s) { s.rows[0].record["messages"] = json::array(); }},
      {"role and content", [](TeacherSet& s) {
         s.rows[0].record["messages"][0]["content"] = 1;
       }},
      {"response.content", [](TeacherSet& s) { s.rows[0].record["response"]["content"] = 1; }},
      {"line 4", [](TeacherSet& s) { s.records_suffix = "\n"; }},
      {"only 3 entries", [](TeacherSet& s) { s.records_suffix = s.rows[0].record.dump() + "\n"; }},
      {"vocabulary of 15", [](TeacherSet& s) { s.tokens[14] = 15; }},
      {"pass the end", [](TeacherSet& s) { s.tokens.pop_back(); }},
      {"holds 16 tokens", [](TeacherSet& s) { s.tokens.push_back(1); }},
      {"manifest says 9", [](TeacherSet& s) { s.manifest["stats"]["records"] = 9; }},
  };
  for (const auto& [part, damage] : damages) {
    SCOPED_TRACE(part);
    TeacherSet set;
    damage(set);
    expect_error(set, part);
  }
}

TEST(Teacher, fewer_records_than_entries_are_found) {
  const fs::path folder = TeacherSet().write(false);
  std::string records = test::read_bytes(folder / "records.jsonl");
  records.resize(records.rfind('\n', records.size() - 2) + 1);
  test::write_bytes(folder / "records.jsonl", records);
  EXPECT_THROW((void)read(folder, "", {.tokens = 1000}), Error);
}

TEST(Teacher, prompts_are_matched_in_a_full_verification) {
  TeacherSet set;
  set.prompts.pop_back();
  set.manifest["prompts"]["count"] = 2;
  expect_error(set, "prompt c is not in", false);
  set = TeacherSet();
  set.prompts[0]["split"] = "test";
  expect_error(set, "has split train and its prompt a has test", false);
  set = TeacherSet();
  set.prompts.push_back({{"id", "d"}, {"split", "val"}, {"messages", {{{"role", "user"}}}}});
  expect_error(set, "4 prompts and the manifest says 3", false);
  set.manifest["prompts"]["count"] = 4;
  expect_error(set, "prompt d has no record", false);
  set = TeacherSet();
  set.prompts[1]["id"] = "a";
  expect_error(set, "occurs twice", false);
  set = TeacherSet();
  set.prompts[1]["messages"] = json::array();
  expect_error(set, "has no messages", false);
}

TEST(Teacher, a_key_that_occurs_twice_is_named_in_every_file) {
  const std::pair<const char*, const char*> files[] = {{"records.jsonl", "\"rid\":"},
                                                       {"prompts.jsonl", "\"id\":"},
                                                       {"manifest.json", "\"version\":"}};
  for (const auto& [name, key] : files) {
    const fs::path folder = TeacherSet().write(false);
    std::string bytes = test::read_bytes(folder / name);
    bytes.replace(bytes.find(key), 0, std::string(key) + "1,");
    test::write_bytes(folder / name, bytes);
    try {
      (void)read(folder, ":all", {.tokens = 1000, .vocab = 15});
      ADD_FAILURE() << name;
    } catch (const Error& error) {
      EXPECT_NE(std::string(error.what()).find("occurs twice"), std::string::npos) << error.what();
      EXPECT_NE(std::string(error.what()).find(name), std::string::npos) << error.what();
    }
  }
}

TEST(Teacher, a_flipped_bit_in_any_file_is_found_by_its_hash) {
  for (const char* name : {"records.jsonl", "tokens.idx", "tokens.bin", "prompts.jsonl"}) {
    const fs::path folder = TeacherSet().write();
    std::string bytes = test::read_bytes(folder / name);
    bytes[bytes.size() / 2] = static_cast<char>(bytes[bytes.size() / 2] ^ 1);
    test::write_bytes(folder / name, bytes);
    try {
      (void)read(folder, "", {.tokens = 10});
      ADD_FAILURE() << name;
    } catch (const Error& error) {
      EXPECT_NE(std::string(error.what()).find(name), std::string::npos) << error.what();
      EXPECT_NE(std::string(error.what()).find("sha256"), std::string::npos) << error.what();
    }
    test::write_bytes(folder / name, bytes + "x");
    EXPECT_THROW((void)read(folder, "", {.tokens = 10}), Error) << name;
    fs::remove(folder / name);
    EXPECT_THROW((void)read(folder, "", {.tokens = 10, .verify = false}), Error) << name;
  }
}

TEST(Teacher, a_tokenizer_of_another_size_is_refused_and_another_spelling_is_said) {
  const TokenizerFacts model{15, "aa"};
  const auto read_with = [&](const json& tokenizer, MemoryLog& log) {
    TeacherSet set;
    if (!tokenizer.is_null()) set.manifest["tokenizer"] = tokenizer;
    const TeacherSelector selector = parse_teacher_selector(set.write().string());
    for (const bool verify : {true, false})
      (void)read_teacher(selector, {.tokens = 10, .tokenizer = model, .verify = verify}, log);
  };
  const auto warnings_of = [](const MemoryLog& log) {
    std::vector<std::string> texts;
    for (const auto& [level, text] : log.lines) {
      if (level == LogLevel::kWarning) texts.push_back(text);
    }
    return texts;
  };
  MemoryLog quiet;
  // What is not named is not compared; equal hashes are equal tokenizers.
  for (const json& same : {json(), json::object(), json{{"vocab_size", 15}},
                           json{{"vocab_sha256", "aa"}}, json{{"vocab_sha256", "aa"}, {"eos_id", 3}}})
    read_with(same, quiet);
  EXPECT_TRUE(warnings_of(quiet).empty());
  MemoryLog told;
  read_with({{"vocab_size", 15}, {"vocab_sha256", "bb"}}, told);
  const std::vector<std::string> warnings = warnings_of(told);
  ASSERT_EQ(warnings.size(), 2U);
  EXPECT_NE(warnings[0].find("15 tokens, sha256 bb in the teacher data; 15 tokens, sha256 aa in the "
                             "model"),
            std::string::npos)
      << warnings[0];
  for (const json& other : {json{{"vocab_size", 16}}, json{{"vocab_size", 16}, {"vocab_sha256", "bb"}}}) {
    try {
      read_with(other, quiet);
      ADD_FAILURE() << other;
    } catch (const Error& error) {
      EXPECT_EQ(error.kind(), ErrorKind::kRefused);
      const std::string text = error.what();
      EXPECT_NE(text.find("16 tokens"), std::string::npos) << text;
      EXPECT_NE(text.find("15 tokens, sha256 aa in the model"), std::string::npos) << text;
    }
  }
  for (const json& damaged : {json(3), json{{"vocab_size", -1}}, json{{"vocab_size", 0}},
                              json{{"vocab_sha256", 1}}})
    EXPECT_THROW(read_with(damaged, quiet), Error) << damaged;
}

TEST(Teacher, manifests_of_other_things_are_refused) {
  for (const char* text :
       {"", "[]", "{}", R"({"format":"x","version":1,"complete":true})",
        R"({"format":"cmf-tdata","version":2,"complete":true})",
        R"({"format":"cmf-tdata","version":1})",
        R"({"format":"cmf-tdata","version":1,"complete":true,"files":3})",
        R"({"format":"cmf-tdata","version":1,"complete":true,"files":{"tokens.bin":{"bytes":4}}})"}) {
    const fs::path folder = TeacherSet().write();
    test::write_bytes(folder / "manifest.json", text);
    EXPECT_THROW((void)read(folder, "", {.tokens = 10}), Error) << text;
  }
}

}  // namespace
}  // namespace cortiq::calib
