// Which records of a teacher data folder are meant.
#include <algorithm>
#include <array>
#include <cctype>

#include "cortiq/calib/sha256.hpp"
#include "cortiq/calib/teacher.hpp"
#include "cortiq/support/error.hpp"

namespace cortiq::calib {
namespace {

constexpr std::string_view kMarker = ".tdata";
constexpr std::size_t kMostFractionDigits = 18;

std::string trimmed_lower(std::string_view text) {
  const std::size_t begin = text.find_first_not_of(" \t");
  if (begin == std::string_view::npos) return {};
  text = text.substr(begin, text.find_last_not_of(" \t") - begin + 1);
  std::string lower(text);
  std::transform(lower.begin(), lower.end(), lower.begin(),
                 [](unsigned char c) { return static_cast<char>(std::tolower(c)); });
  return lower;
}

bool all_digits(std::string_view text) {
  return std::all_of(text.begin(), text.end(), [](char c) { return c >= '0' && c <= '9'; });
}

void parse_share(std::string_view text, std::string_view share, TeacherSelector& selector) {
  const auto refuse = [&](std::string_view expected) {
    fail(ErrorKind::kUsage, "--calib '{}': share '{}' of the teacher records: expected {}", text,
         share, expected);
  };
  const std::size_t point = std::min(share.find('.'), share.size());
  const std::string_view whole = share.substr(0, point);
  const std::string_view fraction = share.substr(std::min(point + 1, share.size()));
  if (whole.size() + fraction.size() == 0 || !all_digits(whole) || !all_digits(fraction))
    refuse("a decimal in (0, 1] without sign or exponent");
  if (fraction.size() > kMostFractionDigits) refuse("at most 18 digits behind the point");
  const bool one = whole.find_first_not_of('0') != std::string_view::npos;
  if (one && (whole.substr(whole.find_first_not_of('0')) != "1" ||
              fraction.find_first_not_of('0') != std::string_view::npos))
    refuse("a decimal in (0, 1]");
  selector.share_numerator = one ? 1 : 0;
  selector.share_denominator = 1;
  for (const char digit : fraction) {
    selector.share_numerator =
        10 * selector.share_numerator + static_cast<std::uint64_t>(digit - '0');
    selector.share_denominator *= 10;
  }
  if (selector.share_numerator == 0) refuse("a decimal in (0, 1]");
}

void parse_split(std::string_view text, std::string_view split, TeacherSelector& selector) {
  constexpr std::array<std::string_view, 4> kSplits{"train", "val", "test", "all"};
  selector.split = trimmed_lower(split);
  if (std::find(kSplits.begin(), kSplits.end(), selector.split) != kSplits.end()) return;
  fail(ErrorKind::kUsage, "--calib '{}': split '{}' of teacher data: expected train, val, test or all",
       text, split);
}

}  // namespace

bool is_teacher_path(const std::filesystem::path& path) {
  std::string name = path.string();
  while (name.size() > 1 && name.back() == '/') name.pop_back();
  const std::size_t marker = name.rfind(kMarker);
  if (marker == std::string::npos) return false;
  const std::string_view rest = std::string_view(name).substr(marker + kMarker.size());
  return rest.empty() || rest.front() == ':' || rest.front() == '=';
}

TeacherSelector parse_teacher_selector(std::string_view text) {
  std::string_view name = text;
  while (name.size() > 1 && name.back() == '/') name.remove_suffix(1);
  const std::size_t marker = name.rfind(kMarker);
  if (marker == std::string_view::npos)
    fail(ErrorKind::kUsage, "--calib '{}': names no teacher data (a folder *.tdata)", text);
  TeacherSelector selector;
  selector.folder = std::string(name.substr(0, marker + kMarker.size()));
  std::string_view rest = name.substr(marker + kMarker.size());
  const std::size_t equals = rest.find('=');
  if (equals != std::string_view::npos) {
    parse_share(text, rest.substr(equals + 1), selector);
    rest = rest.substr(0, equals);
  }
  if (rest.empty()) return selector;
  if (rest.front() != ':') {
    fail(ErrorKind::kUsage,
         "--calib '{}': '{}' behind .tdata: expected :train, :val, :test, :all or =SHARE", text,
         rest);
  }
  parse_split(text, rest.substr(1), selector);
  return selector;
}

bool TeacherSelector::keeps(std::string_view rid) const {
  __extension__ using Wide = unsigned __int128;
  using namespace std::string_view_literals;
  std::string text("cmf-tdata-v1-share\0"sv);
  text += rid;
  const std::string digest = sha256_hex(text);
  const std::uint64_t hash = std::stoull(digest.substr(0, 16), nullptr, 16);
  return hash < (static_cast<Wide>(share_numerator) << 64) / share_denominator;
}

}  // namespace cortiq::calib
