// Source specifications and how a token budget is split over them.
#include <charconv>
#include <cmath>
#include <system_error>

#include "cortiq/calib/corpus.hpp"
#include "cortiq/calib/teacher.hpp"
#include "cortiq/support/error.hpp"
#include "read_file.hpp"

namespace cortiq::calib {
namespace {

namespace fs = std::filesystem;

std::string_view trim(std::string_view text) {
  constexpr std::string_view kSpace = " \t\r\n\v\f";
  const std::size_t begin = text.find_first_not_of(kSpace);
  if (begin == std::string_view::npos) return {};
  return text.substr(begin, text.find_last_not_of(kSpace) - begin + 1);
}

/// A decimal number, "inf" or "nan"; out of range counts as infinite. nullopt if it is no number.
std::optional<double> try_parse_number(std::string_view text) {
  text = trim(text);
  if (!text.empty() && text.front() == '+') {
    text.remove_prefix(1);
    if (!text.empty() && text.front() == '-') return std::nullopt;
  }
  if (text.find('(') != std::string_view::npos) return std::nullopt;  // from_chars reads nan(...)
  double value = 0;
  const auto [end, code] = std::from_chars(text.data(), text.data() + text.size(), value);
  if (end != text.data() + text.size() || code == std::errc::invalid_argument) return std::nullopt;
  if (code == std::errc::result_out_of_range) return HUGE_VAL;
  return value;
}

bool is_file(const fs::path& path) {
  std::error_code ignored;
  return fs::is_regular_file(path, ignored);
}

SourceSpec make_spec(std::string_view text, std::string_view path, double share) {
  if (path.empty())
    fail(ErrorKind::kUsage, "--calib '{}': empty path; write PATH or PATH=SHARE", text);
  if (!(std::isfinite(share) && share > 0)) {
    fail(ErrorKind::kUsage, "--calib '{}': the share must be a positive number, such as 0.5", text);
  }
  return {fs::path(std::string(path)), share, ""};
}

/// The trap of calibration.md section 1.
std::string teacher_note(std::string_view text, std::string_view before, double share) {
  if (!is_teacher_path(fs::path(std::string(before))) || share >= 1 ||
      before.substr(before.rfind(".tdata")).find('=') != std::string_view::npos)
    return {};
  return fmt::format(
      "--calib '{0}' is read as all records of '{1}' with share {2} of the tokens; for this share of "
      "the records write '{0}=1'",
      text, before, share);
}

}  // namespace

bool SourceSpec::is_teacher_data() const { return is_teacher_path(path); }

SourceSpec parse_source_spec(std::string_view text) {
  const std::size_t equals = text.rfind('=');
  if (equals == std::string_view::npos) return make_spec(text, text, 1);
  constexpr std::string_view kExplicit = ",share";
  const std::string_view before = text.substr(0, equals);
  const std::optional<double> share = try_parse_number(text.substr(equals + 1));
  if (before.ends_with(kExplicit)) {
    if (!share) fail(ErrorKind::kUsage, "--calib '{}': the share must be a positive number, such as 0.5", text);
    return make_spec(text, before.substr(0, before.size() - kExplicit.size()), *share);
  }
  if (!share) return make_spec(text, text, 1);
  if (is_file(fs::path(std::string(text)))) {
    if (!is_file(fs::path(std::string(before)))) {
      SourceSpec spec = make_spec(text, text, 1);
      spec.note = fmt::format(
          "--calib '{0}' is read as the file of this name with share 1; write '{0},share=S' for "
          "another share",
          text);
      return spec;
    }
    SourceSpec spec = make_spec(text, before, *share);
    spec.note = fmt::format(
        "--calib '{0}' is read as file '{1}' with share {2}; for the file '{0}' write "
        "'{0},share=1'",
        text, before, *share);
    return spec;
  }
  SourceSpec spec = make_spec(text, before, *share);
  spec.note = teacher_note(text, before, *share);
  return spec;
}

void check_shares(std::vector<SourceSpec>& sources) {
  double total = 0;
  for (const SourceSpec& source : sources) total += source.share;
  // Products with token counts must stay finite too.
  constexpr double kMostTokens = 0x1p62;
  if (!std::isfinite(total * kMostTokens)) {
    fail(ErrorKind::kUsage,
         "--calib: the shares add up to {:g}, with which no tokens can be counted; shares are "
         "weights, so give smaller ones (3 and 1 split 3:1)",
         total);
  }
  if (sources.size() == 1 && sources.front().share != 1) {
    std::string& note = sources.front().note;
    note += fmt::format("{}--calib {}: its share {:g} has no effect, since it is the only source",
                        note.empty() ? "" : "; ", sources.front().path.string(),
                        sources.front().share);
  }
}

std::vector<std::int64_t> split_budget(std::int64_t tokens, const std::vector<double>& shares) {
  double total = 0;
  for (const double share : shares) total += share;
  std::vector<std::int64_t> budgets;
  double cumulative = 0;
  std::int64_t previous = 0;
  for (std::size_t i = 0; i < shares.size(); ++i) {
    cumulative += shares[i];
    std::int64_t upto = tokens;
    if (i + 1 < shares.size()) {
      const double exact = std::round(static_cast<double>(tokens) * cumulative / total);
      // The existing tool takes shares whose sum overflows, which check_shares() refuses: NaN gives
      // such a source nothing.
      const double bounded = std::isnan(exact) ? 0.0 : std::min(exact, static_cast<double>(tokens));
      upto = std::max(static_cast<std::int64_t>(bounded), previous);
    }
    budgets.push_back(upto - previous);
    previous = upto;
  }
  return budgets;
}

void check_sources(const std::vector<SourceSpec>& sources) {
  if (sources.empty())
    fail(ErrorKind::kUsage, "calibration: no text is given; name a file with --calib");
  for (const SourceSpec& source : sources) {
    if (source.path.empty()) continue;
    if (source.is_teacher_data()) {
      check_teacher_folder(parse_teacher_selector(source.path.string()));
      continue;
    }
    const ReadFile file(source.path);
    if (file.size() == 0) {
      fail(ErrorKind::kInput, "{}: the file is empty; give a file with text", source.path.string());
    }
  }
}

}  // namespace cortiq::calib
