// cache_identity.hpp: the JSON form of a cache's identity (hessian-cache.md section 6).
#pragma once

#include <cstdint>
#include <filesystem>
#include <string>
#include <string_view>

#include "cortiq/calib/hessian_cache.hpp"

namespace cortiq::calib {

/// What the sidecar says about the file itself.
struct CacheFileFacts {
  std::uint64_t entries = 0;
  std::uint64_t bytes = 0;
  std::string sha256;
};

[[nodiscard]] std::string identity_to_json(const CacheIdentity& identity,
                                           const CacheFileFacts& facts);
/// @param where  file name for messages. Throws Error{kInput}.
[[nodiscard]] CacheIdentity identity_from_json(std::string_view json, std::string_view where,
                                               CacheFileFacts& facts);

}  // namespace cortiq::calib
