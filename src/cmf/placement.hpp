// placement.hpp: where everything of a file that is to be written will lie (cmf.md sections 1
// and 2.1), and the header as a writer leaves it. No file is touched here.
#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include "cortiq/cmf/writer.hpp"
#include "layout.hpp"

namespace cortiq::cmf {

inline constexpr std::uint64_t kDefaultHeaderSlackBytes =
    65536;  ///< default of Writer's constructor

struct SectionHashes {
  std::uint64_t masks = 0;
  std::uint64_t vocab = 0;
  std::uint64_t index = 0;
};
[[nodiscard]] SectionHashes hash_sections(const WriterSections& sections);

/// The header that a full rewrite stores: section_hashes of the present sections, without
/// `segments` and `shard`, which describe other files. Every other key stays as and where it is.
[[nodiscard]] Header final_header(Header header, const WriterSections& sections,
                                  const SectionHashes& hashes);

struct Placement {
  std::uint64_t directory_bytes = 0;
  std::uint64_t header_room = 0;  ///< a header up to this size stands in front of the directory
  std::uint64_t data_offset = 0;
  std::uint64_t data_bytes = 0;
  std::vector<std::uint64_t> payload_offsets;  ///< relative to data_offset
  Range masks;
  Range vocab;
  Range index;
  std::uint64_t end = 0;  ///< size of the file
};

/// Checks the plan (limits of the format, duplicate names, sizes) and places it. @param where  for
/// messages. Throws Error{kUnsupported} where the format cannot hold the plan, Error{kInput} where
/// the plan contradicts itself.
[[nodiscard]] Placement place(const std::vector<PlannedTensor>& tensors,
                              const WriterSections& sections, std::uint64_t header_room,
                              std::string_view where);

/// Directory bytes of the placed tensors. @param hashes  per tensor.
[[nodiscard]] std::vector<std::byte> make_directory(const std::vector<PlannedTensor>& tensors,
                                                    const Placement& placement,
                                                    const std::vector<std::uint64_t>& hashes);

}  // namespace cortiq::cmf
