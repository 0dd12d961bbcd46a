#include "recipe.hpp"

#include <algorithm>
#include <charconv>
#include <optional>

#include "cortiq/cmf/header.hpp"
#include "cortiq/cmf/json_problem.hpp"
#include "cortiq/pipeline/model_source.hpp"
#include "cortiq/support/file.hpp"

namespace cortiq::app {
namespace {

using cmf::Json;

constexpr std::string_view kOption = "--recipe";
constexpr std::int64_t kMostLayers = 1 << 14;

/// Options of one run that no recipe holds.
bool belongs_to_run(std::string_view name) {
  constexpr std::string_view kNames[] = {"help",    "recipe", "recipe-out", "output", "report",
                                         "dry-run", "resume", "threads",    "quiet",  "verbose",
                                         "json-log", "simd"};
  return std::find(std::begin(kNames), std::end(kNames), name) != std::end(kNames);
}

/// Given, and no matter of one run.
bool belongs_in_recipe(const CLI::Option& option) {
  return option.count() > 0 && !option.get_positional() && !belongs_to_run(option.get_single_name());
}

bool is_pattern_option(std::string_view name) {
  return name == "tensor-quant" || name == "q2tp-rule-tensor";
}

class RecipeWords {
 public:
  RecipeWords(const CLI::App& command, const std::string& path,
              const std::vector<std::string>& line)
      : command_(command), path_(path), line_(line) {}

  std::vector<std::string> words(const Json& recipe) {
    if (!recipe.is_object()) refuse("is no JSON object");
    for (const auto& [key, value] : recipe.items()) {
      if (key == "options") {
        add_options(value);
      } else if (key == "tensors") {
        add_tensors(value);
      } else if (key != "description") {
        refuse(fmt::format("'{}' is unknown; expected options, tensors, description", key));
      }
    }
    return std::move(words_);
  }

 private:
  [[noreturn]] void refuse(const std::string& what) const {
    fail(ErrorKind::kUsage, "--recipe {}: {}", path_, what);
  }
  [[nodiscard]] bool on_line(const std::string& option) const {
    return std::any_of(line_.begin(), line_.end(), [&](const std::string& word) {
      return word == option || word.starts_with(option + "=");
    });
  }
  void add_word(const std::string& option, const std::string& value) {
    // One word where it can be: a value may begin with a dash. An empty one needs its own.
    if (value.empty()) {
      words_.insert(words_.end(), {option, value});
    } else {
      words_.push_back(option + "=" + value);
    }
  }

  void add_options(const Json& options);
  void add_value(const std::string& option, const CLI::Option& known, const Json& value);
  void add_tensors(const Json& tensors);
  void add_tensor(const Json& entry, const std::string& where);
  [[nodiscard]] std::vector<std::int64_t> layers_of(const Json& layers,
                                                    const std::string& where) const;

  const CLI::App& command_;
  const std::string& path_;
  const std::vector<std::string>& line_;
  std::vector<std::string> words_;
};

void RecipeWords::add_options(const Json& options) {
  if (!options.is_object()) refuse("options is no object");
  for (const auto& [key, value] : options.items()) {
    const std::string option = "--" + key;
    const CLI::Option* known = command_.get_option_no_throw(option);
    if (known == nullptr || belongs_to_run(key)) {
      refuse(fmt::format("options: '{}' is no option that a recipe for `{}` can hold", key,
                         command_.get_name()));
    }
    if (on_line(option) && !is_pattern_option(key)) continue;
    const Json list = value.is_array() ? value : Json::array({value});
    for (const Json& item : list) add_value(option, *known, item);
  }
}

void RecipeWords::add_value(const std::string& option, const CLI::Option& known,
                            const Json& value) {
  const bool flag = known.get_expected_max() == 0;
  const std::string name = option.substr(2);
  if (flag) {
    if (!value.is_boolean()) refuse(fmt::format("options: {} takes true or false", name));
    if (value.get<bool>()) words_.push_back(option);
  } else if (!value.is_boolean() && !value.is_string() && !value.is_number()) {
    refuse(fmt::format("options: {} has a value that is no text, number or switch", name));
  } else if (value.is_boolean()) {
    add_word(option, value.get<bool>() ? "on" : "off");
  } else {
    add_word(option, value.is_string() ? value.get<std::string>() : value.dump());
  }
}

void RecipeWords::add_tensors(const Json& tensors) {
  if (!tensors.is_array()) refuse("tensors is no list");
  for (std::size_t i = 0; i < tensors.size(); ++i)
    add_tensor(tensors[i], fmt::format("tensors: entry {}", i + 1));
}

void RecipeWords::add_tensor(const Json& entry, const std::string& where) {
  if (!entry.is_object()) refuse(where + " is no object");
  std::string pattern = "*";
  std::optional<std::string> codec, rule;
  std::vector<std::int64_t> layers;
  for (const auto& [key, value] : entry.items()) {
    if (key == "layers") {
      layers = layers_of(value, where);
      continue;
    }
    if (key != "pattern" && key != "codec" && key != "rule")
      refuse(fmt::format("{}: '{}' is unknown; expected layers, pattern, codec, rule", where, key));
    if (!value.is_string()) refuse(fmt::format("{}: {} is no text", where, key));
    if (key == "pattern") {
      pattern = value.get<std::string>();
    } else if (key == "codec") {
      codec = value.get<std::string>();
    } else {
      rule = value.get<std::string>();
    }
  }
  if (!codec && !rule) refuse(where + " has neither a codec nor a rule");
  if (layers.empty() && !entry.contains("pattern"))
    refuse(where + " has neither layers nor a pattern");
  std::vector<std::string> patterns;
  for (const std::int64_t layer : layers)
    patterns.push_back(fmt::format("model.layers.{}.{}", layer, pattern));
  if (layers.empty()) patterns.push_back(pattern);
  for (const std::string& name : patterns) {
    if (codec) add_word("--tensor-quant", name + "=" + *codec);
    if (rule) add_word("--q2tp-rule-tensor", name + "=" + *rule);
  }
}

std::vector<std::int64_t> RecipeWords::layers_of(const Json& layers,
                                                 const std::string& where) const {
  std::vector<std::int64_t> numbers;
  const Json list = layers.is_array() ? layers : Json::array({layers});
  for (const Json& item : list) {
    std::int64_t first = -1;
    std::int64_t last = -1;
    if (item.is_number_unsigned()) first = last = item.get<std::int64_t>();
    if (item.is_string()) {
      const std::string text = item.get<std::string>();
      const char* end = text.data() + text.size();
      const auto [dash, code] = std::from_chars(text.data(), end, first);
      const bool range = code == std::errc{} && dash != end && *dash == '-';
      if (range && std::from_chars(dash + 1, end, last).ptr != end) last = -1;
      if (!range && dash == end) last = first;
    }
    if (first < 0 || last < first || last >= kMostLayers)
      refuse(fmt::format("{}: layers {}: expected a number or \"first-last\"", where, item.dump()));
    for (std::int64_t layer = first; layer <= last; ++layer) numbers.push_back(layer);
  }
  if (numbers.empty()) refuse(where + ": layers is empty");
  return numbers;
}

/// Path behind --recipe; nullopt if it is not there.
std::optional<std::string> recipe_path(const std::vector<std::string>& words) {
  std::optional<std::string> path;
  for (std::size_t i = 0; i < words.size(); ++i) {
    std::optional<std::string> found;
    if (words[i] == kOption && i + 1 < words.size()) found = words[i + 1];
    if (words[i].starts_with("--recipe=")) found = words[i].substr(kOption.size() + 1);
    if (!found) continue;
    if (path) fail(ErrorKind::kUsage, "--recipe: give only one");
    path = found;
  }
  return path;
}

}  // namespace

void add_recipe_options(CLI::App& command, RecipeArguments& arguments) {
  command.add_option("--recipe", arguments.input,
                     "Options and layers from a JSON file; what the command line names comes first");
  command.add_option("--recipe-out", arguments.output, "Write the options of this run as a recipe");
}

std::vector<std::string> expand_recipe(const CLI::App& app, std::vector<std::string> words) {
  const auto path = recipe_path(words);
  if (!path) return words;
  for (const CLI::App* command : app.get_subcommands({})) {
    const auto place = std::find(words.begin(), words.end(), command->get_name());
    if (place == words.end()) continue;
    // Another command refuses the option by itself.
    if (command->get_option_no_throw(std::string(kOption)) == nullptr) return words;
    constexpr std::uint64_t kMostBytes = std::uint64_t{16} << 20;
    const std::string text = read_text_file(*path, kMostBytes);
    if (const std::string problem = cmf::json_problem(text); !problem.empty())
      fail(ErrorKind::kInput, "--recipe {}: {}; repair the file", *path, problem);
    const Json recipe = Json::parse(text);
    std::vector<std::string> added = RecipeWords(*command, *path, words).words(recipe);
    // Behind those of the line, so that patterns of the line win.
    words.insert(words.end(), added.begin(), added.end());
    return words;
  }
  return words;
}

void check_recipe_output(const CLI::App& command, const RecipeArguments& arguments,
                         const std::vector<std::filesystem::path>& inputs) {
  if (arguments.output.empty()) return;
  std::vector<std::filesystem::path> all = inputs;
  if (!arguments.input.empty()) all.push_back(arguments.input);
  pipeline::check_output_path(arguments.output, all);
  for (const CLI::Option* option : command.get_options()) {
    if (!belongs_in_recipe(*option)) continue;
    for (const std::string& value : option->results()) {
      const std::string text = Json(value).dump(-1, ' ', false, Json::error_handler_t::replace);
      if (Json::parse(text) == Json(value)) continue;
      fail(ErrorKind::kUsage,
           "--recipe-out {}: a recipe cannot hold --{} {}, which is no UTF-8 text; rename the file, or leave --recipe-out out",
           arguments.output.string(), option->get_single_name(), value);
    }
  }
}

void write_recipe(const CLI::App& command, const RecipeArguments& arguments,
                  const std::vector<std::string>& allocated) {
  if (arguments.output.empty()) return;
  Json options = Json::object();
  for (const CLI::Option* option : command.get_options()) {
    if (!belongs_in_recipe(*option)) continue;
    const std::string name = option->get_single_name();
    if (option->get_expected_max() == 0) {
      options[name] = true;
      continue;
    }
    const std::vector<std::string> values = option->results();
    const bool repeatable =
        option->get_multi_option_policy() == CLI::MultiOptionPolicy::TakeAll;
    options[name] = repeatable || values.size() > 1 ? Json(values) : Json(values.front());
  }
  if (!allocated.empty()) {
    options.erase("target-bpw");
    options.erase("target-size");
    options["tensor-quant"] = allocated;
  }
  const Json recipe{{"description", fmt::format("written by cortiq-quant {} {}", CORTIQ_VERSION,
                                                command.get_name())},
                    {"options", options}};
  write_text_file(arguments.output, recipe.dump(2) + "\n");
}

}  // namespace cortiq::app
