// The tojson filter as chat templates get it: Python's json.dumps, not Jinja's own HTML-safe form.
#include <algorithm>

#include "value.hpp"

namespace cortiq::calib::jinja {
namespace {

class JsonWriter {
 public:
  explicit JsonWriter(const JsonStyle& style) : style_(style) {}

  void write(const Value& value, std::int64_t depth) {
    if (value.string() != nullptr) {
      out_ += nlohmann::json(*value.string())
                  .dump(-1, ' ', style_.ensure_ascii, nlohmann::json::error_handler_t::replace);
    } else if (const List* items = value.list()) {
      write_list(*items, depth);
    } else if (const Dict* members = value.dict()) {
      write_dict(*members, depth);
    } else if (value.is_bool()) {
      out_ += value.truth() ? "true" : "false";
    } else if (value.is_number()) {
      out_ += value.repr();
    } else {
      out_ += "null";
    }
  }
  [[nodiscard]] std::string take() { return std::move(out_); }

 private:
  void begin_item(bool first, std::int64_t depth) {
    if (!first) out_ += style_.indent ? "," : ", ";
    new_line(depth);
  }
  void new_line(std::int64_t depth) {
    if (!style_.indent) return;
    out_ += '\n';
    out_.append(static_cast<std::size_t>(depth * std::max<std::int64_t>(*style_.indent, 0)), ' ');
  }
  void write_list(const List& items, std::int64_t depth) {
    out_ += '[';
    for (std::size_t i = 0; i < items.size(); ++i) {
      begin_item(i == 0, depth + 1);
      write(items[i], depth + 1);
    }
    if (!items.empty()) new_line(depth);
    out_ += ']';
  }
  void write_dict(const Dict& dict, std::int64_t depth) {
    std::vector<const std::pair<std::string, Value>*> members;
    for (const auto& item : dict.items) members.push_back(&item);
    if (style_.sort_keys) {
      std::stable_sort(members.begin(), members.end(),
                       [](const auto* a, const auto* b) { return a->first < b->first; });
    }
    out_ += '{';
    for (std::size_t i = 0; i < members.size(); ++i) {
      begin_item(i == 0, depth + 1);
      write(Value(members[i]->first), depth + 1);
      out_ += ": ";
      write(members[i]->second, depth + 1);
    }
    if (!members.empty()) new_line(depth);
    out_ += '}';
  }

  const JsonStyle& style_;
  std::string out_;
};

}  // namespace

std::string to_json(const Value& value, const JsonStyle& style) {
  JsonWriter writer(style);
  writer.write(value, 0);
  return writer.take();
}

}  // namespace cortiq::calib::jinja
