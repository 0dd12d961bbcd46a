#include "cortiq/calib/text.hpp"

#include <algorithm>
#include <array>
#include <nlohmann/json.hpp>
#include <optional>

#include "cortiq/support/error.hpp"
#include "json_text.hpp"
#include "line_reader.hpp"
#include "read_file.hpp"
#include "utf8.hpp"

namespace cortiq::calib {
namespace {

namespace fs = std::filesystem;

constexpr std::string_view kByteOrderMark = "\xEF\xBB\xBF";
/// calibration.md section 2.1: where a newline is looked for, from the end of the budget.
constexpr std::size_t kNewlineReach = 4096;
/// The first budget of the token loop, and the tokens that a cut may have changed.
constexpr std::uint64_t kBytesPerToken = 8;
constexpr std::uint64_t kMinBudgetBytes = 4096;
constexpr std::int64_t kCutTokens = 64;
/// A text that gives less than a token per 512 bytes up to here is no text; memory stays bounded.
constexpr std::uint64_t kMaxBudgetBytes = std::uint64_t{1} << 30;

std::span<std::byte> writable_bytes(std::string& text) {
  return std::as_writable_bytes(std::span(text));
}

/// Offset of the text behind a byte-order mark.
std::uint64_t text_begin(const ReadFile& file) {
  std::string head(kByteOrderMark.size(), '\0');
  head.resize(file.read_some(0, writable_bytes(head)));
  if (head.starts_with("\xFF\xFE") || head.starts_with("\xFE\xFF")) {
    fail(ErrorKind::kInput, "{}: is UTF-16 text (byte-order mark); convert it to UTF-8",
         file.path().string());
  }
  return head == kByteOrderMark ? kByteOrderMark.size() : 0;
}

/// Shortens bytes that the budget cut somewhere.
std::string_view cut_at_boundary(std::string_view bytes) {
  const std::size_t reach = std::min(bytes.size(), kNewlineReach);
  const std::size_t newline = bytes.substr(bytes.size() - reach).rfind('\n');
  if (newline != std::string_view::npos) return bytes.substr(0, bytes.size() - reach + newline + 1);
  while (!bytes.empty() && (static_cast<unsigned char>(bytes.back()) & 0xC0) == 0x80)
    bytes.remove_suffix(1);
  if (!bytes.empty() && static_cast<unsigned char>(bytes.back()) >= 0xC0) bytes.remove_suffix(1);
  return bytes;
}

Text read_plain(const ReadFile& file, std::uint64_t budget_bytes) {
  const std::uint64_t begin = text_begin(file);
  const std::uint64_t rest = file.size() - std::min(file.size(), begin);
  // One byte more than the budget tells whether the text goes on.
  std::string bytes(static_cast<std::size_t>(std::min(rest, budget_bytes + 1)), '\0');
  bytes.resize(file.read_some(begin, writable_bytes(bytes)));
  return cut_text(bytes, budget_bytes);
}

/// The text of one line: a JSON string, or the string "text" of an object.
std::optional<std::string> try_line_text(nlohmann::json value) {
  if (value.is_object()) {
    const auto member = value.find("text");
    if (member == value.end()) return std::nullopt;
    nlohmann::json text = std::move(*member);
    value = std::move(text);
  }
  if (!value.is_string()) return std::nullopt;
  return std::move(value.get_ref<std::string&>());
}

/// A list of messages, or an object with one.
bool is_conversation(const nlohmann::json& value) {
  if (value.is_object() && value.contains("messages")) return value["messages"].is_array();
  return value.is_array() && !value.empty() && value.front().is_object() &&
         value.front().contains("role");
}

class JsonLines {
 public:
  JsonLines(const ReadFile& file, const RenderChat& chat) : file_(file), chat_(chat) {}

  Text read(std::uint64_t budget_bytes) {
    LineReader lines(file_, text_begin(file_), kMaxBudgetBytes);
    std::string_view line;
    for (std::int64_t number = 1; lines.next(line); ++number) {
      take(line, number);
      if (result_.text.size() >= budget_bytes) return std::move(result_);
    }
    result_.exhausted = true;
    return std::move(result_);
  }

 private:
  void take(std::string_view line, std::int64_t number) {
    if (line.find_first_not_of(" \t\r") == std::string_view::npos) {
      ++result_.blank_lines;
      return;
    }
    nlohmann::json value = nlohmann::json::parse(line.begin(), line.end(), nullptr, false);
    const bool conversation = is_conversation(value);
    if (const auto text = try_line_text(std::move(value))) {
      result_.text.append(*text).push_back('\n');
    } else if (conversation) {
      add_conversation(line, number);
    } else {
      result_.skipped.add(number);
    }
  }

  void add_conversation(std::string_view line, std::int64_t number) {
    if (!chat_) {
      fail(ErrorKind::kUnsupported,
           "{}: line {} holds a conversation, but the model has no chat template to render it with; "
           "give the text of the conversations instead",
           file_.path().string(), number);
    }
    const ChatText chat = chat_(line);
    result_.text += chat.text;
    if (chat.refusal.empty()) return;
    result_.refused.add(number);
    if (result_.refusal.empty()) result_.refusal = chat.refusal;
  }

  const ReadFile& file_;
  const RenderChat& chat_;
  Text result_;
};

/// The token loop over any way of reading text.
template <typename Read>
SourceTokens read_enough(std::int64_t want, const Encode& encode, const Read& read) {
  SourceTokens result;
  if (want <= 0) return result;
  const auto wanted = static_cast<std::uint64_t>(want);
  for (std::uint64_t budget = std::max(kBytesPerToken * wanted, kMinBudgetBytes);; budget *= 2) {
    result.text = read(budget);
    result.ids = encode(result.text.text);
    const auto got = static_cast<std::int64_t>(result.ids.size());
    if (result.text.exhausted || got >= want + kCutTokens) break;
    if (budget >= kMaxBudgetBytes && budget >= 2 * kBytesPerToken * wanted) {
      fail(ErrorKind::kInput,
           "{} bytes of text gave only {} tokens of {}; this does not look like text", budget, got,
           want);
    }
  }
  if (result.ids.size() > wanted) result.ids.resize(static_cast<std::size_t>(want));
  return result;
}

}  // namespace

void Findings::add(std::int64_t number) {
  ++count;
  if (numbers.size() < kMaxNumbers && (numbers.empty() || numbers.back() != number))
    numbers.push_back(number);
}

TextKind text_kind(const fs::path& path) {
  const std::string name = path.string();
  if (name.ends_with(".jsonl")) return TextKind::kJsonLines;
  if (name.ends_with(".json")) return TextKind::kJson;
  return TextKind::kPlain;
}

Text cut_text(std::string_view text, std::uint64_t budget_bytes) {
  Text result;
  result.exhausted = text.size() <= budget_bytes;
  if (!result.exhausted)
    text = cut_at_boundary(text.substr(0, static_cast<std::size_t>(budget_bytes)));
  result.text = repair_utf8(text, result.invalid);
  return result;
}

Text read_text(const fs::path& path, std::uint64_t budget_bytes, const RenderChat& chat) {
  const ReadFile file(path);
  switch (text_kind(path)) {
    case TextKind::kJsonLines:
      return JsonLines(file, chat).read(budget_bytes);
    case TextKind::kJson:
      return read_json_array(file, text_begin(file), budget_bytes);
    case TextKind::kPlain:
      break;
  }
  return read_plain(file, budget_bytes);
}

SourceTokens read_tokens(const fs::path& path, std::int64_t want, const Encode& encode,
                         const RenderChat& chat) {
  return read_enough(want, encode,
                     [&](std::uint64_t budget) { return read_text(path, budget, chat); });
}

SourceTokens read_tokens(std::string_view text, std::int64_t want, const Encode& encode) {
  return read_enough(want, encode, [text](std::uint64_t budget) { return cut_text(text, budget); });
}

}  // namespace cortiq::calib
