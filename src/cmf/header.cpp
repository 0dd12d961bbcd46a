#include "cortiq/cmf/header.hpp"

#include <set>
#include <vector>

#include "cortiq/support/error.hpp"
#include "header_schema.hpp"

namespace cortiq::cmf {
namespace {

constexpr std::size_t kMaxDepth = 128;  // dump() and the destructor recurse

/// Follows the parser through the document: nesting depth and duplicate keys.
class KeyTracker {
 public:
  explicit KeyTracker(std::string_view where) : where_(where) {}

  bool event(Json::parse_event_t event, const Json& parsed) {
    switch (event) {
      case Json::parse_event_t::object_start:
        open(true);
        break;
      case Json::parse_event_t::array_start:
        open(false);
        break;
      case Json::parse_event_t::object_end:
      case Json::parse_event_t::array_end:
        levels_.pop_back();
        break;
      case Json::parse_event_t::key:
        key(parsed.get_ref<const std::string&>());
        break;
      case Json::parse_event_t::value:
        break;
    }
    return true;
  }

 private:
  struct Level {
    std::string path;  ///< "arch.moe"; elements of arrays end in "[]"
    std::string key;   ///< the key whose value is being read
    bool is_object = false;
    std::set<std::string, std::less<>> seen;
  };

  void open(bool is_object) {
    if (levels_.size() >= kMaxDepth) {
      fail(ErrorKind::kInput,
           "{}: header: JSON is nested deeper than {} levels; the header is damaged", where_,
           kMaxDepth);
    }
    Level level;
    level.is_object = is_object;
    if (!levels_.empty()) level.path = child_path(levels_.back());
    levels_.push_back(std::move(level));
  }

  void key(const std::string& name) {
    Level& level = levels_.back();
    level.key = name;
    if (!is_known_header_key(level.path, name)) return;
    if (!level.seen.insert(name).second) {
      fail(ErrorKind::kInput, "{}: header: key {} appears twice; the header is damaged", where_,
           child_path(level));
    }
  }

  static std::string child_path(const Level& parent) {
    if (!parent.is_object) return parent.path + "[]";
    return parent.path.empty() ? parent.key : parent.path + "." + parent.key;
  }

  std::string_view where_;
  std::vector<Level> levels_;
};

}  // namespace

Header Header::parse(std::string_view text, std::string_view where) {
  KeyTracker tracker(where);
  const Json::parser_callback_t callback = [&tracker](int, Json::parse_event_t event,
                                                      Json& parsed) {
    return tracker.event(event, parsed);
  };
  Json json;
  try {
    json = Json::parse(text.begin(), text.end(), callback);
  } catch (const Json::exception& error) {
    fail(ErrorKind::kInput, "{}: header: is not valid JSON: {}; the header is damaged", where,
         error.what());
  }
  check_header(json, where);
  return Header(std::move(json));
}

const Json& Header::arch() const {
  static const Json empty = Json::object();
  if (!json_.is_object()) return empty;
  const auto found = json_.find("arch");
  return found != json_.end() && found->is_object() ? *found : empty;
}

std::string Header::arch_name() const {
  const Json& object = arch();
  const auto found = object.find("arch_name");
  return found != object.end() && found->is_string() ? found->get<std::string>() : std::string();
}

std::string Header::dump() const {
  try {
    return json_.dump();
  } catch (const Json::exception& error) {
    fail(ErrorKind::kInput, "header: cannot be written as JSON: {}; every text must be UTF-8",
         error.what());
  }
}

}  // namespace cortiq::cmf
