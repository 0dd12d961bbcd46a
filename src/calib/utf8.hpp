// utf8.hpp: validity of UTF-8 and its repair, by the Unicode rule of "maximal subparts" (Unicode
// 15, table 3-7).
#pragma once

#include <cstddef>
#include <string>
#include <string_view>

#include "cortiq/calib/text.hpp"

namespace cortiq::calib {

/// Length of the valid character at `position`, or 0 and in *bad the bytes that one U+FFFD stands
/// for.
[[nodiscard]] std::size_t utf8_length(std::string_view text, std::size_t position,
                                      std::size_t* bad);
[[nodiscard]] bool is_utf8(std::string_view text);
/// Replaces each invalid sequence by U+FFFD and notes the line (counted by newlines) in `invalid`.
[[nodiscard]] std::string repair_utf8(std::string_view text, Findings& invalid);

}  // namespace cortiq::calib
