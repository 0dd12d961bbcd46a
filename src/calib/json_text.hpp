// json_text.hpp: the strings of a .json array as calibration text, parsed as a stream: memory does
// not grow with the file.
#pragma once

#include <cstdint>

#include "cortiq/calib/text.hpp"
#include "read_file.hpp"

namespace cortiq::calib {

/// Items of the top array: a string, or an array whose strings are taken in order; each + newline.
/// Other items are counted as skipped. Text stops behind the item that reaches the budget; the file
/// is parsed to its end all the same. Throws Error{kInput} with line and column where it is no
/// JSON.
[[nodiscard]] Text read_json_array(const ReadFile& file, std::uint64_t begin,
                                   std::uint64_t budget_bytes);

}  // namespace cortiq::calib
