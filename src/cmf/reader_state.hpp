// reader_state.hpp: what an open CMF file or sharded set holds. Private to the module.
#pragma once

#include <array>
#include <atomic>
#include <cstdint>
#include <memory>
#include <mutex>
#include <string_view>
#include <unordered_map>
#include <vector>

#include "cortiq/cmf/reader.hpp"
#include "cortiq/support/file.hpp"
#include "directory.hpp"
#include "layout.hpp"

namespace cortiq::cmf {

/// One file. Sections are views into the map.
struct Shard {
  explicit Shard(const std::filesystem::path& path) : file(path) {}
  [[nodiscard]] ByteSpan section(const Range& range) const {
    if (range.length == 0) return {};
    return file.bytes().subspan(static_cast<std::size_t>(range.offset),
                                static_cast<std::size_t>(range.length));
  }
  MappedFile file;
  Envelope envelope;
  Header header;
  std::vector<DirectoryEntry> entries;  ///< emptied when the set is merged
  std::vector<std::string> warnings;
};

/// Opens and checks one file, without its siblings. Throws Error as Reader::open.
[[nodiscard]] Shard open_shard(const std::filesystem::path& path);

/// Given an open file that may be shard 1 of a set, opens the others in order. Returns {first} for
/// a single file.
[[nodiscard]] std::vector<Shard> open_siblings(Shard first);

/// Sections that hold no payloads.
enum class SectionName : std::uint8_t { kHeader, kDirectory, kMasks, kVocab, kIndex };
inline constexpr std::size_t kSectionNames = 5;

/// Where the bytes of a tensor lie.
struct Location {
  std::size_t shard = 0;
  std::uint64_t offset = 0;  ///< in the file
};

struct Reader::State {
  std::filesystem::path path;
  std::vector<Shard> shards;
  std::vector<TensorInfo> tensors;
  std::vector<Location> locations;                            ///< same order as tensors
  std::unordered_map<std::string_view, std::size_t> by_name;  ///< keys are views of tensors[i].name
  std::vector<std::string> warnings;
  std::unique_ptr<std::atomic<bool>[]> intact;  ///< per tensor: its payload was compared with its hash
  bool checks_sections = false;                 ///< section() compares hashes
  mutable std::array<std::once_flag, kSectionNames> section_checked;
  /// Of shard 1. Throws Error{kInput} if it does not have its recorded hash; compares once.
  [[nodiscard]] ByteSpan section(SectionName name) const;
  /// Throws Error{kInput} if a payload does not have the hash of the directory; compares once.
  void check_payload(std::size_t index) const;
  [[nodiscard]] ByteSpan payload(std::size_t index) const {
    const Location& at = locations[index];
    return shards[at.shard].section({at.offset, tensors[index].nbytes});
  }
};

}  // namespace cortiq::cmf
