// header_schema.hpp: the keys of the JSON header that the format defines (cmf.md section 5) and
// their checks.
#pragma once

#include <string_view>

#include "cortiq/cmf/header.hpp"

namespace cortiq::cmf {

/// True if the format defines `key` inside the object at `path` ("" = top level, "arch",
/// "arch.moe"…).
[[nodiscard]] bool is_known_header_key(std::string_view path, std::string_view key);

/// Required keys, types, enums and the rules between keys. @param where  file name for messages.
/// Throws Error{kInput}.
void check_header(const Json& header, std::string_view where);

}  // namespace cortiq::cmf
