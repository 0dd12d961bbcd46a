// masks.hpp: structure of the masks and index sections (cmf.md section 8). Both are copied as they
// are; only what `inspect` shows is read, and a reader refuses sections whose tables leave them.
#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include "cortiq/support/bytes.hpp"

namespace cortiq::cmf {

/// Names of the masks in file order; empty for an empty section. @param where  file name for
/// messages. Throws Error{kInput}.
[[nodiscard]] std::vector<std::string> read_mask_names(ByteSpan masks, std::string_view where);
/// Number of entries; 0 for an empty section. Throws Error{kInput}.
[[nodiscard]] std::uint32_t read_mask_index_count(ByteSpan index, std::string_view where);

}  // namespace cortiq::cmf
