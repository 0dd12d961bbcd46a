// hash64.hpp: the checksum of the format (cmf.md section 3). Word order does not matter and equal words cancel: it
// finds corruption, it never proves equality.
#pragma once

#include <cstdint>

#include "cortiq/support/bytes.hpp"

namespace cortiq::cmf {

[[nodiscard]] std::uint64_t hash64(ByteSpan bytes) noexcept;

}  // namespace cortiq::cmf
