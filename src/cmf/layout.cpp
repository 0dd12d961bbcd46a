#include "layout.hpp"

#include "cortiq/cmf/features.hpp"

namespace cortiq::cmf {
namespace {

Range load_range(const std::byte* source) noexcept {
  return {load_le<std::uint64_t>(source), load_le<std::uint64_t>(source + 8)};
}

void store_range(std::byte* target, const Range& range) noexcept {
  store_le(target, range.offset);
  store_le(target + 8, range.length);
}

void check_section(const Range& range, std::string_view name, std::uint64_t file_bytes,
                   std::string_view where) {
  if (range.length == 0) return;
  std::uint64_t end = 0;
  if (add_overflows(range.offset, range.length, &end) || end > file_bytes) {
    fail(ErrorKind::kInput,
         "{}: {} section: offset {} and length {} pass the end of the file ({} bytes); the file is "
         "damaged or was not copied completely",
         where, name, range.offset, range.length, file_bytes);
  }
}

void check_magic_and_version(ByteSpan file, std::string_view where) {
  if (file.size() < kEnvelopeBytes) {
    fail(
        ErrorKind::kInput,
        "{}: envelope: the file has {} bytes, a CMF file has at least {}; it is no CMF file or was "
        "not copied completely",
        where, file.size(), kEnvelopeBytes);
  }
  if (std::memcmp(file.data(), kMagic.data(), kMagic.size()) != 0) {
    fail(ErrorKind::kInput,
         "{}: envelope: begins with {:08x}, not with 434d4601; it is no CMF version 2 file", where,
         __builtin_bswap32(load_le<std::uint32_t>(file.data())));
  }
  const auto version = load_le<std::uint32_t>(file.data() + 4);
  if (version != kVersion) {
    fail(ErrorKind::kUnsupported,
         "{}: envelope: version {} is not known, only version {}; use a newer program or convert "
         "the file",
         where, version, kVersion);
  }
}

}  // namespace

Envelope parse_envelope(ByteSpan file, std::string_view where) {
  check_magic_and_version(file, where);
  const std::byte* p = file.data();
  Envelope e;
  e.required_features = load_le<std::uint32_t>(p + 0x0C);
  if (const std::uint32_t unknown = e.required_features & ~kSupportedFeatures; unknown != 0) {
    fail(ErrorKind::kUnsupported,
         "{}: envelope: the file needs features that are not known ({}); use a newer program",
         where, feature_names(unknown));
  }
  e.header = load_range(p + 0x10);
  e.directory = load_range(p + 0x20);
  e.data = load_range(p + 0x30);
  e.masks = load_range(p + 0x40);
  e.vocab = load_range(p + 0x50);
  e.index = load_range(p + 0x60);
  e.header_hash = load_le<std::uint64_t>(p + 0x70);
  e.directory_hash = load_le<std::uint64_t>(p + 0x78);
  if (e.header.length == 0 || e.directory.length == 0) {
    fail(ErrorKind::kInput, "{}: {} section: has length 0; the file is damaged or was not finished",
         where, e.header.length == 0 ? "header" : "directory");
  }
  check_section(e.header, "header", file.size(), where);
  check_section(e.directory, "directory", file.size(), where);
  check_section(e.data, "data", file.size(), where);
  check_section(e.masks, "masks", file.size(), where);
  check_section(e.vocab, "vocab", file.size(), where);
  check_section(e.index, "index", file.size(), where);
  if (e.data.length > 0 && e.data.offset % kDataAlignment != 0) {
    fail(ErrorKind::kInput, "{}: data section: offset {} is no multiple of {}; the file is damaged",
         where, e.data.offset, kDataAlignment);
  }
  return e;
}

std::array<std::byte, kEnvelopeBytes> make_envelope(const Envelope& e) {
  std::array<std::byte, kEnvelopeBytes> bytes{};
  std::byte* p = bytes.data();
  std::memcpy(p, kMagic.data(), kMagic.size());
  store_le(p + 0x04, kVersion);
  store_le(p + 0x0C, e.required_features);
  store_range(p + 0x10, e.header);
  store_range(p + 0x20, e.directory);
  store_range(p + 0x30, e.data);
  store_range(p + 0x40, e.masks);
  store_range(p + 0x50, e.vocab);
  store_range(p + 0x60, e.index);
  store_le(p + 0x70, e.header_hash);
  store_le(p + 0x78, e.directory_hash);
  return bytes;
}

DirectoryRecord load_record(const std::byte* p) noexcept {
  DirectoryRecord r;
  r.name_offset = load_le<std::uint32_t>(p);
  r.name_length = load_le<std::uint16_t>(p + 4);
  r.dtype = load_le<std::uint8_t>(p + 6);
  r.rank = load_le<std::uint8_t>(p + 7);
  for (std::size_t i = 0; i < kMaxRank; ++i) r.shape[i] = load_le<std::uint32_t>(p + 8 + 4 * i);
  r.offset = load_le<std::uint64_t>(p + 32);
  r.nbytes = load_le<std::uint64_t>(p + 40);
  r.hash = load_le<std::uint64_t>(p + 48);
  return r;
}

void store_record(std::byte* p, const DirectoryRecord& r) noexcept {
  store_le(p, r.name_offset);
  store_le(p + 4, r.name_length);
  store_le(p + 6, r.dtype);
  store_le(p + 7, r.rank);
  for (std::size_t i = 0; i < kMaxRank; ++i) store_le(p + 8 + 4 * i, r.shape[i]);
  store_le(p + 32, r.offset);
  store_le(p + 40, r.nbytes);
  store_le(p + 48, r.hash);
}

}  // namespace cortiq::cmf
