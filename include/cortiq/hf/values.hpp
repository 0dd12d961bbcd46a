// values.hpp: elements of a safetensors tensor -> payload of a CMF float tensor (cmf.md
// section 9.5). f16 rounding is the format's (support/half.hpp). NaN, infinities and values that
// the target cannot hold are errors.
#pragma once

#include <cstdint>
#include <string_view>
#include <vector>

#include "cortiq/cmf/dtype.hpp"
#include "cortiq/hf/safetensors.hpp"
#include "cortiq/support/bytes.hpp"

namespace cortiq::hf {

/// Appends `count` elements to a payload.
/// @param source  elements of `type`, any alignment
/// @param target  room for source.size() / source_type_bytes(type) elements of `dtype` (kF16, kBf16
/// or kF32)
/// @param first   index of the first element in the whole tensor, for messages
/// @param keep_non_finite  NaN and infinities stay what they are instead of being an error
/// Throws Error{kInput} with tensor name, element index, value and remedy.
void convert_values(ByteSpan source, SourceType type, cmf::DType dtype, std::byte* target,
                    std::int64_t first, std::string_view tensor, bool keep_non_finite = false);

/// The check of convert_values alone, for values that are used as they are.
void check_values(ByteSpan source, SourceType type, std::int64_t first, std::string_view tensor);

/// True if the source bytes are already the payload.
[[nodiscard]] bool same_encoding(SourceType type, cmf::DType dtype) noexcept;

}  // namespace cortiq::hf
