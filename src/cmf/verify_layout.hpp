// verify_layout.hpp: what no hash of a CMF file covers: envelope fields, how sections lie, and the
// bytes between them (cmf.md sections 1 and 2.1). Private to the module.
#pragma once

#include <vector>

#include "cortiq/cmf/verify.hpp"
#include "reader_state.hpp"

namespace cortiq::cmf {

/// Adds what is wrong to `report`. A writer leaves zeros between sections and payloads, so other
/// bytes are damage; only in files that programs have appended to (header and directory behind the
/// data) they may be remains, and are warned of.
/// @param payloads  of this file, offsets in the file.
void verify_layout(const Shard& shard, const std::vector<Range>& payloads, VerifyReport* report);

}  // namespace cortiq::cmf
