// cache_index.hpp: the index pass over a CMFHESS1 file (hessian-cache.md sections 4 and 5).
#pragma once

#include <string>
#include <vector>

#include "cortiq/calib/hessian_cache.hpp"
#include "read_file.hpp"

namespace cortiq::calib {

struct CacheIndex {
  std::vector<CacheEntry> entries;
  std::string footer;  ///< JSON behind the last entry; empty as a rule
};

/// Reads headers and names only, payloads are skipped. Every size is checked against the rest of
/// the file before anything is allocated for it. Throws Error{kInput} with path, entry and numbers.
[[nodiscard]] CacheIndex read_cache_index(const ReadFile& file);

}  // namespace cortiq::calib
