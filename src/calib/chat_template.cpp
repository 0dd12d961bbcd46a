#include "cortiq/calib/chat_template.hpp"

#include <nlohmann/json.hpp>

#include "cortiq/support/error.hpp"
#include "jinja/builtins.hpp"
#include "jinja/statement.hpp"

namespace cortiq::calib {
namespace {

using Json = nlohmann::ordered_json;
constexpr std::size_t kMostSourceBytes = std::size_t{1} << 20;

}  // namespace

struct ChatTemplate::State {
  jinja::Block block;
};

ChatTemplate::ChatTemplate(std::unique_ptr<const State> state) : state_(std::move(state)) {}
ChatTemplate::~ChatTemplate() = default;
ChatTemplate::ChatTemplate(ChatTemplate&&) noexcept = default;

ChatTemplate ChatTemplate::parse(std::string_view source, std::string_view where) {
  if (source.size() > kMostSourceBytes) {
    fail(ErrorKind::kInput, "{}: has {} bytes, more than a template of {} can be; shorten it", where,
         source.size(), kMostSourceBytes);
  }
  auto state = std::make_unique<State>();
  state->block = jinja::parse_template(jinja::tokenize(source, where), where);
  return ChatTemplate(std::move(state));
}

ChatText ChatTemplate::render(std::string_view conversation, const ChatTokens& tokens) const {
  const Json json = Json::parse(conversation.begin(), conversation.end(), nullptr, false);
  if (json.is_discarded()) return {{}, "is no JSON"};
  const Json& messages = json.is_object() && json.contains("messages") ? json["messages"] : json;
  if (!messages.is_array() || messages.empty()) return {{}, "has no messages"};
  jinja::Dict globals = jinja::global_functions();
  globals.set("messages", jinja::Value::from_json(messages));
  globals.set("tools", json.is_object() && json.contains("tools")
                           ? jinja::Value::from_json(json["tools"])
                           : jinja::Value::none());
  globals.set("documents", jinja::Value::none());
  globals.set("add_generation_prompt", false);
  if (!tokens.bos.empty()) globals.set("bos_token", tokens.bos);
  if (!tokens.eos.empty()) globals.set("eos_token", tokens.eos);
  jinja::Scope scope(std::move(globals));
  try {
    (void)state_->block.run(scope);
  } catch (const jinja::Refusal& refusal) {
    return {{}, refusal.reason};
  }
  return {std::move(scope.output), {}};
}

}  // namespace cortiq::calib
