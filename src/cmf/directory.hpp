// directory.hpp: the tensor directory of one file (cmf.md sections 2 and 4): parsing and the checks
// of each record.
#pragma once

#include <cstdint>
#include <string_view>
#include <vector>

#include "cortiq/cmf/source.hpp"
#include "layout.hpp"

namespace cortiq::cmf {

struct DirectoryEntry {
  TensorInfo info;
  std::uint64_t offset = 0;  ///< relative to the data section
};

/// Records and names in file order; shapes and sizes are not judged yet. @param where  file name
/// for messages. Throws Error{kInput}.
[[nodiscard]] std::vector<DirectoryEntry> parse_directory(ByteSpan directory,
                                                          std::string_view where);

/// Alignment, range, size for the type and shape, and the tables inside variable-size payloads.
/// @param data  the data section. Throws Error{kInput}.
void check_entry(const DirectoryEntry& entry, ByteSpan data, std::string_view where);

/// Payloads that share bytes, as warnings.
[[nodiscard]] std::vector<std::string> overlap_warnings(const std::vector<DirectoryEntry>& entries,
                                                        std::string_view where);

/// "[4096, 128]".
[[nodiscard]] std::string shape_text(const std::vector<std::int64_t>& shape);

}  // namespace cortiq::cmf
