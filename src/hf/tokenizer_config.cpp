#include <algorithm>

#include "cortiq/hf/config.hpp"
#include "fields.hpp"

namespace cortiq::hf {
namespace {

using cmf::Json;

/// Token ids under a key: one integer or a list of them.
std::vector<std::int64_t> read_ids(const Fields& fields, std::string_view key) {
  const Json* value = fields.find(key);
  if (value == nullptr) return {};
  if (!value->is_array()) return {*fields.integer({key})};
  std::vector<std::int64_t> ids;
  for (const Json& item : *value) {
    const std::int64_t id = item.is_number_integer() ? item.get<std::int64_t>() : -1;
    if (id < 0 || id > 0xFFFFFFFF) fields.wrong(key, "a list of token ids");
    ids.push_back(id);
  }
  return ids;
}

bool is_blank(std::string_view text) {
  return text.find_first_not_of(" \t\r\n") == std::string_view::npos;
}

/// The header is written as UTF-8; a damaged template is noticed here, not at the end of a long
/// job.
void check_utf8(const std::string& text, std::string_view where) {
  try {
    static_cast<void>(Json(text).dump());
  } catch (const Json::exception&) {
    fail(ErrorKind::kInput,
         "{}: the chat template is not valid UTF-8; the file is damaged, download it again", where);
  }
}

}  // namespace

Json tokenizer_from_config(const Json& config_json, const Json& generation_json,
                           const Json& tokenizer_json, std::string_view chat_template,
                           std::string_view where) {
  const std::string folder(where);
  const Fields config(config_json, folder + ": config.json");
  const Json empty = Json::object();
  const Json* text_json = config.object("text_config");
  const Fields text(text_json != nullptr ? *text_json : empty,
                    folder + ": config.json: text_config");
  const Fields generation(generation_json, folder + ": generation_config.json");
  const Fields tokenizer(tokenizer_json, folder + ": tokenizer_config.json");

  Json result = Json::object();
  std::string chat(is_blank(chat_template) ? std::string_view() : chat_template);
  const Json* own_template = tokenizer.find("chat_template");
  if (chat.empty() && own_template != nullptr && own_template->is_string())
    chat = own_template->get<std::string>();
  check_utf8(chat, where);
  if (!chat.empty()) result["chat_template"] = chat;

  std::vector<std::int64_t> eos = read_ids(generation, "eos_token_id");
  if (eos.empty()) eos = read_ids(config, "eos_token_id");
  if (eos.empty()) eos = read_ids(text, "eos_token_id");
  for (const std::int64_t id : read_ids(config, "eod_token_id")) {
    if (std::find(eos.begin(), eos.end(), id) == eos.end()) eos.push_back(id);
  }
  result["eos_token_ids"] = eos;
  for (const std::string_view key : {"bos_token_id", "pad_token_id"}) {
    std::vector<std::int64_t> ids = read_ids(config, key);
    if (ids.empty()) ids = read_ids(text, key);
    if (!ids.empty()) result[std::string(key)] = ids.front();
  }
  return result;
}

}  // namespace cortiq::hf
