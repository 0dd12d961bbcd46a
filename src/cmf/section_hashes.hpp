// section_hashes.hpp: recorded hashes of header, directory, masks, vocabulary and index (cmf.md
// sections 1 and 3). Private to the module.
#pragma once

#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "reader_state.hpp"

namespace cortiq::cmf {

/// What to do about damage; right in the message of any command.
inline constexpr std::string_view kDamageRemedy =
    "copy or make it again (`cortiq-quant verify` lists all damage; gptq and quantize take it as it "
    "is with --sanitize)";

[[nodiscard]] Range range_of(const Envelope& envelope, SectionName name);
/// "header", "vocab section"…, as messages name it.
[[nodiscard]] std::string_view text_of(SectionName name);

/// What the header's section_hashes says of "masks", "vocab" or "index".
[[nodiscard]] std::optional<std::string> hash_in_header(const Shard& shard, const char* key);
/// The recorded hash, 16 hex digits; nullopt where there is none, or no such section.
[[nodiscard]] std::optional<std::string> recorded_hash(const Shard& shard, SectionName name);

/// "file: tensor NAME: hash mismatch (stored X, computed Y); the file is damaged".
[[nodiscard]] std::string payload_mismatch_text(const Shard& shard, const TensorInfo& info,
                                                std::uint64_t computed);

/// The same of a section ("file: header: …") if it does not have its recorded hash.
[[nodiscard]] std::optional<std::string> hash_problem(const Shard& shard, SectionName name);
/// Throws Error{kInput} if the section does not have its recorded hash.
void check_hash(const Shard& shard, SectionName name);

}  // namespace cortiq::cmf
