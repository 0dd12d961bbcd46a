// Chat templates against the reference implementation (tools/make_chat_cases.py).
#include "cortiq/calib/chat_template.hpp"

#include <gtest/gtest.h>

#include <nlohmann/json.hpp>

#include "cortiq/support/error.hpp"
#include "cortiq/support/file.hpp"
#include "data_dirs.hpp"

namespace cortiq::calib {
namespace {

namespace fs = std::filesystem;
using Json = nlohmann::ordered_json;

std::string render(std::string_view source, std::string_view conversation = R"([{"role":"user"}])") {
  const ChatText result = ChatTemplate::parse(source, "test").render(conversation, {"<s>", "</s>"});
  return result.refusal.empty() ? result.text : "refused: " + result.refusal;
}

TEST(ChatTemplate, every_template_renders_as_the_reference_does) {
  const fs::path folder = test::data_dir() / "chat";
  const Json conversations = Json::parse(read_text_file(folder / "conversations.json"));
  const Json expected = Json::parse(read_text_file(folder / "expected.json"));
  std::size_t compared = 0;
  for (const auto& [name, cases] : expected.items()) {
    const std::string source = read_text_file(folder / (name + ".jinja"));
    const ChatTemplate chat = ChatTemplate::parse(source, name);
    for (const auto& [conversation, want] : cases.items()) {
      SCOPED_TRACE(name + ", " + conversation);
      const ChatText got = chat.render(conversations[conversation].dump(), {"<s>", "</s>"});
      EXPECT_EQ(got.refusal.empty(), want.contains("text")) << got.refusal << want.dump();
      if (want.contains("text")) {
        EXPECT_EQ(got.text, want["text"].get<std::string>());
      }
      ++compared;
    }
  }
  EXPECT_EQ(compared, expected.size() * conversations.size());
  EXPECT_GE(expected.size(), 7U);
}

TEST(ChatTemplate, says_why_a_conversation_is_refused) {
  EXPECT_EQ(render("{{ raise_exception('roles must ' ~ 'alternate') }}"),
            "refused: roles must alternate");
  EXPECT_EQ(render("{{ messages[0].nothing.at_all }}"),
            "refused: at_all of an undefined value");
  EXPECT_EQ(render("{{ 'a' + 1 }}"), "refused: '+' of string and integer has no meaning");
  EXPECT_EQ(render("{{ bos_token }}", "no json"), "refused: is no JSON");
  EXPECT_EQ(render("{{ bos_token }}", R"({"text":"x"})"), "refused: has no messages");
}

TEST(ChatTemplate, a_date_does_not_depend_on_the_day) {
  EXPECT_EQ(render("{{ strftime_now('%d %B %Y, %A') }}"), "26 July 2024, Friday");
}

TEST(ChatTemplate, what_is_not_known_is_refused_by_name_and_line) {
  const auto message = [](std::string_view source, ErrorKind kind) {
    try {
      (void)ChatTemplate::parse(source, "model: chat_template");
    } catch (const Error& error) {
      EXPECT_EQ(error.kind(), kind) << error.what();
      return std::string(error.what());
    }
    ADD_FAILURE() << "was parsed: " << source;
    return std::string();
  };
  EXPECT_NE(message("\n{% include 'x' %}", ErrorKind::kUnsupported).find("line 2: the tag {% include"),
            std::string::npos);
  EXPECT_NE(message("{{ x | wordwrap }}", ErrorKind::kUnsupported).find("filter wordwrap"),
            std::string::npos);
  EXPECT_NE(message("{{ x is filter }}", ErrorKind::kUnsupported).find("test filter"),
            std::string::npos);
  for (const char* source :
       {"{{ x", "{% if x %}", "{% if %}{% endif %}", "{# open", "{{ 'open }}", "{{ x. }}",
        "{{ [1, }}", "{% for x %}{% endfor %}", "{% endif %}", "{% break %}", "{{ 1 2 }}",
        "{% set x %}", "{{ ` }}", "{% raw %}", "{{ {1 }} }}", "{% %}", "{{ }}", "{{ a[] }}"}) {
    const ErrorKind kind = std::string_view(source) == "{% endif %}" ? ErrorKind::kUnsupported
                                                                    : ErrorKind::kInput;
    EXPECT_NE(message(source, kind), "") << source;
  }
}

TEST(ChatTemplate, work_and_depth_are_bounded) {
  EXPECT_EQ(render("{% for a in range(1048576) %}{% for b in range(1048576) %}{% endfor %}"
                   "{% endfor %}"),
            "refused: the template runs on without an end");
  EXPECT_NE(render("{{ range(10 ** 12) }}").find("too long"), std::string::npos);
  EXPECT_NE(render("{{ 'x' * 10 ** 12 }}").find("too long"), std::string::npos);
  EXPECT_NE(render("{% macro f() %}{{ f() }}{% endmacro %}{{ f() }}").find("deep"),
            std::string::npos);
  EXPECT_THROW((void)ChatTemplate::parse("{{" + std::string(100000, '(') + "1", ""), Error);
  std::string sum = "{{ 1";
  for (int i = 0; i < 50000; ++i) sum += "+1";
  EXPECT_THROW((void)ChatTemplate::parse(sum + "}}", ""), Error);
  std::string blocks;
  for (int i = 0; i < 10000; ++i) blocks += "{% if x %}";
  EXPECT_THROW((void)ChatTemplate::parse(blocks, ""), Error);
}

}  // namespace
}  // namespace cortiq::calib
