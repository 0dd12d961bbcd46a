// Any text as a chat template: parsed and run on a conversation, or refused.
#include <cstddef>
#include <cstdint>
#include <string_view>

#include "cortiq/calib/chat_template.hpp"
#include "cortiq/support/error.hpp"

extern "C" int LLVMFuzzerTestOneInput(const std::uint8_t* data, std::size_t size) {
  constexpr std::string_view kConversation =
      R"([{"role":"system","content":"s"},{"role":"user","content":"a b"},)"
      R"({"role":"assistant","content":null,"tool_calls":[{"function":{"name":"f","arguments":{}}}]}])";
  try {
    const auto chat = cortiq::calib::ChatTemplate::parse(
        {reinterpret_cast<const char*>(data), size}, "fuzz");
    (void)chat.render(kConversation, {"<s>", "</s>"});
  } catch (const cortiq::Error&) {
    return 0;
  }
  return 0;
}
