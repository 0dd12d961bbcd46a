// config.hpp: config.json -> the `arch` record of a CMF header (cmf.md section 9.2, with its column
// "better").
#pragma once

#include <string>
#include <string_view>
#include <vector>

#include "cortiq/cmf/header.hpp"

namespace cortiq::hf {

/// Values of `model_type` that can be converted, sorted.
[[nodiscard]] const std::vector<std::string_view>& supported_model_types();

/// @param config  parsed config.json    @param where  its path for messages
/// @param warnings  gets what the file states twice and differently
/// Throws Error{kUnsupported} naming a model type, activation, rope scaling or quantization method
/// that is not handled, Error{kInput} naming a key that is missing or has the wrong type or an
/// impossible value.
[[nodiscard]] cmf::Json arch_from_config(const cmf::Json& config, std::string_view where,
                                         std::vector<std::string>* warnings = nullptr);

/// The header's tokenizer_config from the texts of the folder; any of them may be an empty object
/// or text.
/// @param chat_template  content of chat_template.jinja
[[nodiscard]] cmf::Json tokenizer_from_config(const cmf::Json& config,
                                              const cmf::Json& generation_config,
                                              const cmf::Json& tokenizer_config,
                                              std::string_view chat_template,
                                              std::string_view where);

/// Parses a JSON file that must be an object. Throws Error{kInput} with the byte of a syntax error.
[[nodiscard]] cmf::Json parse_object(std::string_view text, std::string_view where);

}  // namespace cortiq::hf
