// post_processor.hpp: the "post_processor" of a tokenizer.json, of which only the token in front of
// a text is of use here. ByteLevel changes offsets alone; what stands behind the text is not read.
#pragma once

#include <optional>

#include "cortiq/model/tokenizer.hpp"
#include "tokenizer/json_value.hpp"

namespace cortiq::model::tokenizer {

/// The first token that TemplateProcessing ("single"), RobertaProcessing or BertProcessing puts in
/// front, if any. Refuses other processors by name.
[[nodiscard]] std::optional<TokenId> parse_bos(const JsonValue& value);

}  // namespace cortiq::model::tokenizer
