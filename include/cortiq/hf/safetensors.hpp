// safetensors.hpp: the table of contents of a safetensors file: u64 header length, JSON header,
// data (cmf.md section 9.1). Parsing touches only the header; every span is checked against the
// file before anything uses it.
#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "cortiq/support/bytes.hpp"

namespace cortiq::hf {

/// Element types that can be read. Everything else is refused by name when the tensor is needed.
enum class SourceType { kF32, kF16, kBf16, kI32, kI64 };
[[nodiscard]] std::int64_t source_type_bytes(SourceType type) noexcept;

struct SafetensorsEntry {
  std::string name;
  std::string dtype;                ///< as spelled in the file: "F16", "F8_E4M3"…
  std::optional<SourceType> type;   ///< nullopt for a dtype that cannot be read
  std::vector<std::int64_t> shape;  ///< each >= 0; the product fits in 63 bits
  std::uint64_t offset = 0;         ///< of the first byte, from the start of the file
  std::uint64_t nbytes = 0;
};

/// Entries in the order of the JSON header, without `__metadata__`.
/// @param file   the whole file    @param where  its name for messages
/// Throws Error{kInput}: a file that is cut short, a header that is no JSON object or longer than
/// the file or 100 MB, a name that occurs twice, a span outside the file, spans that overlap, a
/// size that disagrees with dtype and shape.
[[nodiscard]] std::vector<SafetensorsEntry> parse_safetensors(ByteSpan file,
                                                              std::string_view where);

}  // namespace cortiq::hf
