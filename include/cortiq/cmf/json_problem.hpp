// json_problem.hpp: what a parser of JSON passes over in silence: keys that occur twice, of which
// the last would win. For files that people write.
#pragma once

#include <string>
#include <string_view>

namespace cortiq::cmf {

/// What is wrong with a JSON text: "is no valid JSON (byte 17)", "options: key 'tokens' occurs
/// twice", nesting that a parser would recurse into too deeply. Empty if nothing is. Keys are equal
/// if their characters are, however they are escaped. No side effects; throws nothing of its own.
[[nodiscard]] std::string json_problem(std::string_view text);

}  // namespace cortiq::cmf
