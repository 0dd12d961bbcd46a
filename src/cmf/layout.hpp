// layout.hpp: fixed-size records of a CMF file: the envelope (cmf.md section 1), a directory record
// (section 2) and where payloads are placed (section 2.1).
#pragma once

#include <array>
#include <cstdint>
#include <span>
#include <string_view>

#include "cortiq/support/bytes.hpp"

namespace cortiq::cmf {

inline constexpr std::uint64_t kEnvelopeBytes = 128;
inline constexpr std::uint64_t kRecordBytes = 56;
inline constexpr std::uint64_t kDirectoryHeadBytes = 16;
inline constexpr std::uint64_t kDataAlignment = 4096;
inline constexpr std::uint64_t kPayloadAlignment = 64;
inline constexpr std::uint64_t kLargePayloadBytes =
    16384;  ///< from here on payloads are aligned to 4096
inline constexpr std::size_t kMaxRank = 6;
inline constexpr std::array<std::uint8_t, 4> kMagic{0x43, 0x4D, 0x46, 0x01};
inline constexpr std::uint32_t kVersion = 2;

struct Range {
  std::uint64_t offset = 0;
  std::uint64_t length = 0;
};

struct Envelope {
  std::uint32_t required_features = 0;
  Range header;
  Range directory;
  Range data;
  Range masks;
  Range vocab;
  Range index;
  std::uint64_t header_hash = 0;  ///< 0 = not recorded
  std::uint64_t directory_hash = 0;
};

/// Checks magic, version, known features and that every section lies inside the file.
/// @param where  file name for messages. Throws Error{kInput} or Error{kUnsupported}.
[[nodiscard]] Envelope parse_envelope(ByteSpan file, std::string_view where);
[[nodiscard]] std::array<std::byte, kEnvelopeBytes> make_envelope(const Envelope& envelope);

struct DirectoryRecord {
  std::uint32_t name_offset = 0;
  std::uint16_t name_length = 0;
  std::uint8_t dtype = 0;
  std::uint8_t rank = 0;
  std::array<std::uint32_t, kMaxRank> shape{};
  std::uint64_t offset = 0;
  std::uint64_t nbytes = 0;
  std::uint64_t hash = 0;
};

[[nodiscard]] DirectoryRecord load_record(const std::byte* source) noexcept;
void store_record(std::byte* target, const DirectoryRecord& record) noexcept;

/// Smallest multiple of `alignment` not below `value`. The caller rules out values near 2^64.
[[nodiscard]] constexpr std::uint64_t align_up(std::uint64_t value,
                                               std::uint64_t alignment) noexcept {
  return (value + alignment - 1) / alignment * alignment;
}
[[nodiscard]] constexpr std::uint64_t payload_alignment(std::uint64_t nbytes) noexcept {
  return nbytes >= kLargePayloadBytes ? kDataAlignment : kPayloadAlignment;
}

}  // namespace cortiq::cmf
