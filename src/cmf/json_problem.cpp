#include "cortiq/cmf/json_problem.hpp"

#include <set>
#include <vector>

#include "cortiq/cmf/header.hpp"
#include "cortiq/support/error.hpp"

namespace cortiq::cmf {
namespace {

constexpr std::size_t kMaxDepth = 128;  // a document's destructor recurses

/// Follows the parser; the first problem ends the parse.
class Events {
 public:
  [[nodiscard]] const std::string& problem() const { return problem_; }

  bool start_object(std::size_t) { return open(true); }
  bool start_array(std::size_t) { return open(false); }
  bool end_object() { return close(); }
  bool end_array() { return close(); }
  bool key(const std::string& name) {
    Level& level = levels_.back();
    level.key = name;
    if (level.seen.insert(name).second) return true;
    problem_ = fmt::format("{}key '{}' occurs twice", place(), name);
    return false;
  }
  bool null() { return true; }
  bool boolean(bool) { return true; }
  bool number_integer(Json::number_integer_t) { return true; }
  bool number_unsigned(Json::number_unsigned_t) { return true; }
  bool number_float(Json::number_float_t, const std::string&) { return true; }
  bool string(const std::string&) { return true; }
  bool binary(const Json::binary_t&) { return true; }
  bool parse_error(std::size_t byte, const std::string&, const Json::exception&) {
    problem_ = fmt::format("is no valid JSON (byte {})", byte);
    return false;
  }

 private:
  struct Level {
    bool is_object = false;
    std::string key;  ///< whose value is being read
    std::set<std::string, std::less<>> seen;
  };

  bool open(bool is_object) {
    if (levels_.size() >= kMaxDepth) {
      problem_ = fmt::format("is nested deeper than {} levels", kMaxDepth);
      return false;
    }
    levels_.push_back({is_object, {}, {}});
    return true;
  }
  bool close() {
    levels_.pop_back();
    return true;
  }
  /// "options: " for what lies in the value of that key; empty at the top.
  [[nodiscard]] std::string place() const {
    std::string text;
    for (std::size_t i = 0; i + 1 < levels_.size(); ++i) {
      if (levels_[i].is_object) text += levels_[i].key + ": ";
    }
    return text;
  }

  std::vector<Level> levels_;
  std::string problem_;
};

}  // namespace

std::string json_problem(std::string_view text) {
  Events events;
  (void)Json::sax_parse(text.begin(), text.end(), &events);
  return events.problem();
}

}  // namespace cortiq::cmf
