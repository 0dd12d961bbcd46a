// verify.hpp: checks every hash and invariant of an open CMF file, as a report.
#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include "cortiq/cmf/reader.hpp"
#include "cortiq/support/parallel.hpp"

namespace cortiq::cmf {

struct VerifyReport {
  std::int64_t tensors = 0;
  std::uint64_t bytes = 0;
  std::vector<std::string> problems;  ///< "file: section or tensor: what (stored …, computed …)"; empty = intact
  std::vector<std::string> warnings;
};

/// Header, directory, masks, vocabulary and index, of every shard, that do not have their recorded
/// hash: a line each, as in VerifyReport::problems.
[[nodiscard]] std::vector<std::string> section_problems(const Reader& reader);

[[nodiscard]] VerifyReport verify(const Reader& reader, Pool& pool);

}  // namespace cortiq::cmf
