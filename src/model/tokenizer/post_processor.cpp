#include "tokenizer/post_processor.hpp"

namespace cortiq::model::tokenizer {
namespace {

constexpr int kMaxDepth = 16;

std::optional<TokenId> template_bos(const JsonValue& value) {
  const std::vector<JsonValue> parts = value["single"].items();
  if (parts.empty() || parts.front()["SpecialToken"].is_null()) {
    return std::nullopt;
  }
  const JsonValue name = parts.front()["SpecialToken"]["id"];
  const JsonValue definition = value["special_tokens"][name.string()];
  if (definition.is_null()) {
    name.fail_input(fmt::format("'{}' is not among special_tokens", name.string()));
  }
  const std::vector<JsonValue> ids = definition["ids"].items();
  if (ids.empty()) {
    return std::nullopt;
  }
  return static_cast<TokenId>(ids.front().integer(0, INT32_MAX - 1));
}

std::optional<TokenId> bos_of(const JsonValue& value, int depth) {
  const std::string& type = value.type();
  if (type == "TemplateProcessing") {
    return template_bos(value);
  }
  if (type == "RobertaProcessing" || type == "BertProcessing") {
    const std::vector<JsonValue> pair = value["cls"].items();
    if (pair.size() != 2) {
      value["cls"].fail_input("expected a token and its id");
    }
    return static_cast<TokenId>(pair[1].integer(0, INT32_MAX - 1));
  }
  if (type == "ByteLevel") {
    return std::nullopt;
  }
  if (type != "Sequence" || depth == kMaxDepth) {
    value.refuse(fmt::format("the post-processor '{}' is not supported", type));
  }
  // Each processor puts its tokens around the result of the one before, so the last one stands in
  // front.
  std::optional<TokenId> bos;
  for (const JsonValue& item : value["processors"].items()) {
    const std::optional<TokenId> found = bos_of(item, depth + 1);
    bos = found ? found : bos;
  }
  return bos;
}

}  // namespace

std::optional<TokenId> parse_bos(const JsonValue& value) {
  return value.is_null() ? std::nullopt : bos_of(value, 0);
}

}  // namespace cortiq::model::tokenizer
