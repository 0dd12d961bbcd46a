// chat_template.hpp: conversations -> the text that a chat model was trained on, by the model's own
// template (tokenizer_config: chat_template). The template language is the part of Jinja that such
// templates use (src/calib/jinja); what it lacks is refused by name. A template sees a fixed date.
#pragma once

#include <memory>
#include <string>
#include <string_view>

namespace cortiq::calib {

/// Spelling of the model's special tokens; empty where it has none.
struct ChatTokens {
  std::string bos;
  std::string eos;
};

/// The text of one conversation, or why the template does not take it.
struct ChatText {
  std::string text;
  std::string refusal;  ///< empty if there is text
};

class ChatTemplate {
 public:
  /// @param where  for messages. Throws Error{kInput} for what is no template, {kUnsupported} for
  /// what this interpreter does not know.
  [[nodiscard]] static ChatTemplate parse(std::string_view source, std::string_view where);
  ~ChatTemplate();
  ChatTemplate(ChatTemplate&&) noexcept;

  /// @param conversation  JSON: an array of messages {role, content, ...}, or an object with
  /// "messages" and perhaps "tools". No prompt for an answer is added behind it.
  [[nodiscard]] ChatText render(std::string_view conversation, const ChatTokens& tokens) const;

 private:
  struct State;
  explicit ChatTemplate(std::unique_ptr<const State> state);
  std::unique_ptr<const State> state_;
};

}  // namespace cortiq::calib
