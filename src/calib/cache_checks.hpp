// cache_checks.hpp: whether what a cache holds can be sums of squares (hessian-cache.md section 5).
// The format has no checksum; these bounds find most damage that changes a result.
#pragma once

#include <string>
#include <vector>

#include "cortiq/calib/hessian_cache.hpp"

namespace cortiq::calib {

/// "tensor NAME" of its first name.
[[nodiscard]] std::string entry_name(const CacheEntry& entry);

/// What is odd but usable, each line naming the tensor: entries somewhat above
/// |H_ij| <= sqrt(H_ii H_jj), sums of squares that are not the diagonal, fewer rows than channels.
/// Values that no rounding explains (more than twice what is possible) are Error{kInput} naming
/// tensor, place and numbers. One pass over the matrix.
[[nodiscard]] std::vector<std::string> check_sums(const CacheEntry& entry, const Hessian& hessian);

}  // namespace cortiq::calib
