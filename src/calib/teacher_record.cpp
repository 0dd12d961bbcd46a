// One row: the JSON of a record against its entry of the index.
#include "cortiq/cmf/json_problem.hpp"
#include "cortiq/support/bytes.hpp"
#include "cortiq/support/error.hpp"
#include "teacher_files.hpp"

namespace cortiq::calib::teacher {
namespace {

constexpr std::uint32_t kUsable = 1;
constexpr std::uint32_t kTruncated = 2;
constexpr std::uint32_t kLoop = 4;
constexpr std::uint32_t kCheckFailed = 8;
constexpr std::uint64_t kNoTopk = ~std::uint64_t{0};
constexpr std::uint64_t kMostTokens = std::uint64_t{1} << 24;

struct IndexEntry {
  explicit IndexEntry(const std::byte* bytes)
      : tok_offset(load_le<std::uint64_t>(bytes)),
        total(load_le<std::uint32_t>(bytes + 8)),
        prompt(load_le<std::uint32_t>(bytes + 12)),
        think(load_le<std::uint32_t>(bytes + 16)),
        answer(load_le<std::uint32_t>(bytes + 20)),
        topk_offset(load_le<std::uint64_t>(bytes + 24)),
        flags(load_le<std::uint32_t>(bytes + 32)),
        split(load_le<std::uint8_t>(bytes + 36)),
        padding_is_zero(load_le<std::uint16_t>(bytes + 37) == 0 &&
                        load_le<std::uint8_t>(bytes + 39) == 0) {}
  std::uint64_t tok_offset;
  std::uint32_t total, prompt, think, answer;
  std::uint64_t topk_offset;
  std::uint32_t flags;
  std::uint8_t split;
  bool padding_is_zero;
};

/// Typed access to the fields of one record; every failure names the line.
class Row {
 public:
  Row(const Json& json, const std::string& where) : json_(json), where_(where) {}

  void expect(bool right, std::string_view what) const {
    if (!right)
      fail(ErrorKind::kInput, "{}: {}; the teacher data is damaged, make or copy it again",
           where_, what);
  }
  [[nodiscard]] const Json& member(const Json& of, const char* key) const {
    const auto found = of.is_object() ? of.find(key) : of.end();
    expect(of.is_object() && found != of.end(), fmt::format("{} is missing", key));
    return *found;
  }
  [[nodiscard]] std::string text(const char* key) const {
    const Json& value = member(json_, key);
    expect(value.is_string() && !value.get_ref<const std::string&>().empty(),
           fmt::format("{} is no text", key));
    return value.get<std::string>();
  }
  [[nodiscard]] std::uint64_t count(const Json& of, const char* key) const {
    const Json& value = member(of, key);
    expect(value.is_number_unsigned(), fmt::format("{} is no count", key));
    return value.get<std::uint64_t>();
  }
  [[nodiscard]] bool flag(const char* key) const {
    const Json& value = member(json_, key);
    expect(value.is_boolean(), fmt::format("{} is neither true nor false", key));
    return value.get<bool>();
  }
  /// nullptr where it is absent or null.
  [[nodiscard]] const Json* optional(const Json& of, const char* key) const {
    const auto found = of.find(key);
    return found == of.end() || found->is_null() ? nullptr : &*found;
  }
  [[nodiscard]] const Json& json() const { return json_; }

 private:
  const Json& json_;
  const std::string& where_;
};

void check_conversation(const Row& row) {
  const Json& messages = row.member(row.json(), "messages");
  row.expect(messages.is_array() && !messages.empty(), "messages is no list");
  for (const Json& message : messages) {
    row.expect(row.member(message, "role").is_string() && row.member(message, "content").is_string(),
               "a message has no role and content");
  }
  const Json& response = row.member(row.json(), "response");
  row.expect(row.member(response, "content").is_string(), "response.content is no text");
  const Json* think = row.optional(response, "think");
  row.expect(think == nullptr || think->is_string(), "response.think is no text");
}

void check_counts(const Row& row, const IndexEntry& entry, std::uint64_t index) {
  const Json& tok = row.member(row.json(), "tok");
  row.expect(row.count(tok, "index") == index, "tok.index is not its place in the file");
  row.expect(row.count(tok, "offset") == entry.tok_offset, "tok.offset differs from tokens.idx");
  row.expect(row.count(tok, "prompt") == entry.prompt && row.count(tok, "think") == entry.think &&
                 row.count(tok, "answer") == entry.answer && row.count(tok, "total") == entry.total,
             "the counts in tok differ from tokens.idx");
  row.expect(std::uint64_t{entry.prompt} + entry.think + entry.answer == entry.total,
             "prompt + think + answer is not total");
  row.expect(entry.total <= kMostTokens, "has more than 2^24 tokens");
}

bool check_failed(const Row& row, const Json* quality) {
  const Json* check = quality != nullptr ? row.optional(*quality, "check") : nullptr;
  if (check == nullptr) return false;
  if (check->is_boolean()) return !check->get<bool>();
  return check->is_object() && check->value("pass", Json(true)) == false;
}

void check_flags(const Row& row, const IndexEntry& entry, bool usable) {
  row.expect((entry.flags & ~(kUsable | kTruncated | kLoop | kCheckFailed)) == 0,
             fmt::format("unknown flags {} in tokens.idx", entry.flags));
  row.expect(entry.padding_is_zero, "its entry of tokens.idx does not end in zeros");
  row.expect(((entry.flags & kUsable) != 0) == usable, "usable differs from tokens.idx");
  const Json* quality = row.optional(row.json(), "quality");
  row.expect(quality == nullptr || quality->is_object(), "quality is no object");
  const auto agrees = [&](const char* key, std::uint32_t bit) {
    const Json* value = quality != nullptr ? row.optional(*quality, key) : nullptr;
    if (value == nullptr) return;
    row.expect(value->is_boolean() && value->get<bool>() == ((entry.flags & bit) != 0),
               fmt::format("quality.{} differs from tokens.idx", key));
  };
  agrees("truncated", kTruncated);
  agrees("loop_suspect", kLoop);
  const bool failed = (entry.flags & kCheckFailed) != 0;
  row.expect(check_failed(row, quality) == failed, "quality.check differs from tokens.idx");
  row.expect(!(failed && usable), "is usable although its check failed");
}

void check_topk(const Row& row, const IndexEntry& entry) {
  const Json* topk = row.optional(row.json(), "topk");
  row.expect((topk != nullptr) == (entry.topk_offset != kNoTopk),
             "topk is in only one of records.jsonl and tokens.idx");
  if (topk == nullptr) return;
  row.expect(row.count(*topk, "offset") == entry.topk_offset,
             "topk.offset differs from tokens.idx");
  row.expect(row.count(*topk, "positions") == std::uint64_t{entry.think} + entry.answer,
             "topk.positions is not think + answer");
}

}  // namespace

Record parse_record(std::string_view line, const std::byte* bytes, std::uint64_t index,
                    const std::string& where) {
  const IndexEntry entry(bytes);
  if (!line.empty() && line.back() == '\r') line.remove_suffix(1);
  const Json json = Json::parse(line.begin(), line.end(), nullptr, false);
  const Row row(json, where);
  row.expect(json.is_object(), "is no JSON object in UTF-8");
  const std::string problem = cmf::json_problem(line);
  row.expect(problem.empty(), problem);
  Record record;
  record.rid = row.text("rid");
  record.pid = row.text("pid");
  record.split = row.text("split");
  record.usable = row.flag("usable");
  row.expect(row.count(json, "sample") <= 0xFFFFFFFFU, "sample is too large");
  constexpr std::string_view kSplits[] = {"train", "val", "test"};
  row.expect(entry.split < 3 && kSplits[entry.split] == record.split,
             "its split differs from tokens.idx");
  check_conversation(row);
  check_counts(row, entry, index);
  check_flags(row, entry, record.usable);
  check_topk(row, entry);
  record.offset = entry.tok_offset;
  record.tokens = entry.total;
  return record;
}

}  // namespace cortiq::calib::teacher
