#include "run_journal.hpp"

#include <system_error>

#include "cortiq/cmf/hash64.hpp"
#include "cortiq/support/file.hpp"

namespace cortiq::pipeline {
namespace fs = std::filesystem;
namespace {

using cmf::Json;
using Clock = std::chrono::steady_clock;

constexpr int kVersion = 1;
constexpr std::size_t kHashDigits = 16;
/// After a power loss at most so much work is done again.
constexpr auto kSyncInterval = std::chrono::seconds(10);

std::string checksum(std::string_view text) {
  return fmt::format("{:016x}", cmf::hash64(std::as_bytes(std::span(text))));
}

/// Names of the user may hold any bytes.
std::string dump(const Json& json) {
  return json.dump(-1, ' ', false, Json::error_handler_t::replace);
}

/// The JSON of a whole line, discarded if it is damaged.
Json parse_line(std::string_view line) {
  const Json damaged(Json::value_t::discarded);
  if (line.size() < kHashDigits + 2 || line[kHashDigits] != ' ') return damaged;
  const std::string_view body = line.substr(kHashDigits + 1);
  if (line.substr(0, kHashDigits) != checksum(body)) return damaged;
  return Json::parse(body, nullptr, false);
}

/// Whether a file begins as journals do; a kill may have left less than that.
bool begins_as_journal(std::string_view text) {
  constexpr std::string_view kStart = " {\"journal\":";
  const std::string_view digits = text.substr(0, kHashDigits);
  if (digits.find_first_not_of("0123456789abcdef") != std::string_view::npos) return false;
  const std::string_view rest = text.substr(digits.size());
  return rest.starts_with(kStart) || kStart.starts_with(rest);
}

void take_event(const Json& event, Leftover& left) {
  if (event.contains("tensor")) {
    left.tensors[event["tensor"].get<std::size_t>()] = {event["hash"].get<std::uint64_t>(),
                                                        event["report"]};
  } else if (event.contains("warning")) {
    left.warnings.push_back(event["warning"].get<std::string>());
  } else if (event.contains("cache")) {
    const Json& cache = event["cache"];
    left.cache = calib::CachePrefix{cache["entries"].get<std::uint64_t>(),
                                    cache["bytes"].get<std::uint64_t>(),
                                    cache["sha256"].get<std::string>()};
    left.cache_file = cache["file"].get<std::string>();
  }
}

std::string shown(const Json& fingerprint, const std::string& key) {
  if (!fingerprint.contains(key)) return "not set";
  const Json& value = fingerprint[key];
  return value.is_string() ? value.get<std::string>() : dump(value);
}

}  // namespace

fs::path journal_path(const fs::path& output) { return output.string() + ".partial.journal"; }

std::optional<Leftover> read_leftover(const fs::path& output) {
  const fs::path path = journal_path(output);
  if (!file_identity(path) || !file_identity(output.string() + ".partial")) return std::nullopt;
  const std::string text = read_text_file(path);
  Leftover left;
  std::size_t begin = 0;
  for (std::size_t end = text.find('\n'); end != std::string::npos; end = text.find('\n', begin)) {
    const Json event = parse_line(std::string_view(text).substr(begin, end - begin));
    if (event.is_discarded()) break;
    if (begin == 0) {
      if (event.value("journal", 0) != kVersion) return std::nullopt;
      left.fingerprint = event["fingerprint"];
    } else {
      take_event(event, left);
    }
    begin = end + 1;
  }
  left.bytes = begin;
  return begin > 0 ? std::optional(std::move(left)) : std::nullopt;
}

void check_no_foreign_leftover(const fs::path& output) {
  const fs::path path = journal_path(output);
  check_replaceable(path);
  std::error_code ignored;
  if (fs::is_regular_file(path, ignored) && !begins_as_journal(read_text_file(path))) {
    fail(ErrorKind::kRefused,
         "{}: exists and is no journal of an unfinished run, but this run would write one under "
         "this name; move or remove it, or choose another output",
         path.string());
  }
  // What a journal vouches for is ours however it begins.
  if (!read_leftover(output)) cmf::Writer::check_partial(output);
}

std::vector<std::string> fingerprint_differences(const Json& here, const Json& there) {
  std::vector<std::string> differences;
  Json keys = here;
  keys.update(there);
  for (const auto& [key, value] : keys.items()) {
    const bool both = here.contains(key) && there.contains(key);
    if (both && here[key] == there[key]) continue;
    differences.push_back(fmt::format("{}: {} here, {} in the interrupted run", key,
                                      shown(here, key), shown(there, key)));
  }
  return differences;
}

Json tensor_report_json(const TensorReport& report) {
  Json json{{"action", static_cast<int>(report.action)},
            {"codec", report.codec},
            {"note", report.note},
            {"missed", report.missed},
            {"sanitized", report.sanitized},
            {"hessian_rows", report.hessian_rows},
            {"prior_rows", report.prior_rows},
            {"lambda", report.lambda},
            {"retries", report.retries},
            {"identity", report.identity},
            {"dead_channels", report.dead_channels},
            {"seconds", report.seconds},
            {"codes", report.codes}};
  if (report.error) json["error"] = *report.error;
  if (report.rtn_error) json["rtn_error"] = *report.rtn_error;
  return json;
}

void restore_tensor_report(const Json& json, TensorReport& report) {
  report.action = static_cast<Action>(json["action"].get<int>());
  json["codec"].get_to(report.codec);
  json["note"].get_to(report.note);
  json["missed"].get_to(report.missed);
  json["sanitized"].get_to(report.sanitized);
  json["hessian_rows"].get_to(report.hessian_rows);
  json["prior_rows"].get_to(report.prior_rows);
  json["lambda"].get_to(report.lambda);
  json["retries"].get_to(report.retries);
  json["identity"].get_to(report.identity);
  json["dead_channels"].get_to(report.dead_channels);
  json["seconds"].get_to(report.seconds);
  json["codes"].get_to(report.codes);
  const auto number = [&](const char* key) {
    const bool there = json.contains(key) && json[key].is_number();
    return there ? std::optional(json[key].get<double>()) : std::nullopt;
  };
  report.error = number("error");
  report.rtn_error = number("rtn_error");
}

RunJournal::RunJournal(const fs::path& output, const Json& fingerprint, cmf::Writer& writer)
    : writer_(writer), file_(journal_path(output)) {
  append({{"journal", kVersion}, {"fingerprint", fingerprint}});
}

RunJournal::RunJournal(const fs::path& output, const Leftover& leftover, cmf::Writer& writer)
    : writer_(writer), file_(journal_path(output), leftover.bytes) {
  for (const auto& [index, tensor] : leftover.tensors) count_ += writer.is_written(index) ? 1 : 0;
}

void RunJournal::append(const Json& line) {
  const std::string body = dump(line);
  const std::string text = checksum(body) + " " + body + "\n";
  file_.append(std::as_bytes(std::span(text)));
}

void RunJournal::finished(std::size_t index, const TensorReport& report) {
  const std::lock_guard lock(mutex_);
  append({{"tensor", index},
          {"hash", writer_.payload_hash(index)},
          {"report", tensor_report_json(report)}});
  ++count_;
  if (Clock::now() - synced_ < kSyncInterval) return;
  writer_.sync();
  file_.sync();
  synced_ = Clock::now();
}

void RunJournal::warning(const std::string& text) {
  const std::lock_guard lock(mutex_);
  append({{"warning", text}});
}

void RunJournal::cache(const fs::path& file, const calib::CachePrefix& prefix) {
  const std::lock_guard lock(mutex_);
  append({{"cache",
           {{"file", file.string()},
            {"entries", prefix.entries},
            {"bytes", prefix.bytes},
            {"sha256", prefix.sha256}}}});
}

void RunJournal::remove() {
  std::error_code ignored;
  fs::remove(file_.path(), ignored);
}

}  // namespace cortiq::pipeline
