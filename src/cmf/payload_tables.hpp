// payload_tables.hpp: checks of the tables that lie inside variable-size payloads (vbit, vbit_ro,
// q1s, q1t; cmf.md section 4), so that a decoder may follow them without tests of its own. Other
// types have no such tables.
#pragma once

#include <string>

#include "cortiq/cmf/source.hpp"

namespace cortiq::cmf {

/// What is wrong, with numbers; empty if nothing is. The element count of the shape fits in 63
/// bits.
[[nodiscard]] std::string payload_table_problem(const TensorInfo& info, ByteSpan payload);

}  // namespace cortiq::cmf
