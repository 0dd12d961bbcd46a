#include "placement.hpp"

#include <limits>
#include <string_view>
#include <unordered_set>

#include "cortiq/cmf/hash64.hpp"
#include "directory.hpp"
#include "utf8.hpp"

namespace cortiq::cmf {
namespace {

constexpr std::uint64_t kMaxName = std::numeric_limits<std::uint16_t>::max();
constexpr std::uint64_t kMaxPool = std::numeric_limits<std::uint32_t>::max();
constexpr std::int64_t kMaxExtent = std::numeric_limits<std::uint32_t>::max();
/// Far above every real file and far below 2^63, so that sums of a few such numbers cannot
/// overflow.
constexpr std::uint64_t kMaxFileBytes = std::uint64_t{1} << 60;

void check_planned(const PlannedTensor& tensor, std::string_view where) {
  if (tensor.name.size() > kMaxName) {
    fail(ErrorKind::kUnsupported,
         "{}: tensor {}...: its name has {} bytes, a CMF file holds at most {}; rename it", where,
         tensor.name.substr(0, 60), tensor.name.size(), kMaxName);
  }
  if (!is_utf8(tensor.name)) {
    fail(ErrorKind::kInput, "{}: directory: the name of a tensor is not UTF-8; rename it", where);
  }
  if (tensor.shape.size() > kMaxRank) {
    fail(ErrorKind::kUnsupported, "{}: tensor {}: has {} dimensions, a CMF file holds at most {}",
         where, tensor.name, tensor.shape.size(), kMaxRank);
  }
  for (const std::int64_t extent : tensor.shape) {
    if (extent < 0 || extent > kMaxExtent) {
      fail(ErrorKind::kUnsupported, "{}: tensor {}: shape {} has an extent outside 0..{}, which the format cannot hold; split it", where,
           tensor.name, shape_text(tensor.shape), kMaxExtent);
    }
  }
  if (tensor.nbytes > kMaxFileBytes) {
    fail(ErrorKind::kUnsupported, "{}: tensor {}: {} bytes are more than a file can hold; the input is damaged or must be split", where,
         tensor.name, tensor.nbytes);
  }
  if (!has_fixed_size(tensor.dtype)) return;
  const std::optional<std::uint64_t> expected = fixed_payload_bytes(tensor.dtype, tensor.shape);
  if (!expected || *expected != tensor.nbytes) {
    fail(ErrorKind::kInput, "{}: tensor {}: {} {} {}, {} are planned", where, tensor.name,
         dtype_name(tensor.dtype), shape_text(tensor.shape),
         expected ? fmt::format("needs {} bytes", *expected) : "is not an allowed shape",
         tensor.nbytes);
  }
}

std::string hex16(std::uint64_t hash) { return fmt::format("{:016x}", hash); }

Range place_section(std::uint64_t* cursor, ByteSpan section) {
  if (section.empty()) return {};
  const Range range{*cursor, section.size()};
  *cursor += section.size();
  return range;
}

}  // namespace

SectionHashes hash_sections(const WriterSections& sections) {
  return {hash64(sections.masks), hash64(sections.vocab), hash64(sections.mask_index)};
}

Header final_header(Header header, const WriterSections& sections, const SectionHashes& hashes) {
  Json& json = header.json();
  if (!json.is_object()) return header;
  json.erase("segments");
  json.erase("shard");
  Json section_hashes = Json::object();
  if (!sections.masks.empty()) section_hashes["masks"] = hex16(hashes.masks);
  if (!sections.vocab.empty()) section_hashes["vocab"] = hex16(hashes.vocab);
  if (!sections.mask_index.empty()) section_hashes["index"] = hex16(hashes.index);
  if (section_hashes.empty()) {
    json.erase("section_hashes");
  } else {
    json["section_hashes"] = std::move(section_hashes);
  }
  return header;
}

Placement place(const std::vector<PlannedTensor>& tensors, const WriterSections& sections,
                std::uint64_t header_room, std::string_view where) {
  Placement placement;
  placement.payload_offsets.reserve(tensors.size());
  std::unordered_set<std::string_view> names;
  std::uint64_t pool = 0;
  std::uint64_t cursor = 0;
  for (const PlannedTensor& tensor : tensors) {
    check_planned(tensor, where);
    if (!names.insert(tensor.name).second) {
      fail(ErrorKind::kInput, "{}: tensor {}: is planned twice", where, tensor.name);
    }
    pool += tensor.name.size();
    const std::uint64_t offset = align_up(cursor, payload_alignment(tensor.nbytes));
    placement.payload_offsets.push_back(offset);
    cursor = offset + tensor.nbytes;
    if (cursor > kMaxFileBytes || pool > kMaxPool) {
      fail(ErrorKind::kUnsupported,
           "{}: the tensors are too large or their names too long for one file; shorten the names or split the model", where);
    }
  }
  placement.directory_bytes = kDirectoryHeadBytes + kRecordBytes * tensors.size() + pool;
  placement.header_room = header_room;
  placement.data_offset =
      align_up(kEnvelopeBytes + header_room + placement.directory_bytes, kDataAlignment);
  placement.data_bytes = cursor;
  std::uint64_t end = placement.data_offset + placement.data_bytes;
  placement.masks = place_section(&end, sections.masks);
  placement.vocab = place_section(&end, sections.vocab);
  placement.index = place_section(&end, sections.mask_index);
  placement.end = end;
  return placement;
}

std::vector<std::byte> make_directory(const std::vector<PlannedTensor>& tensors,
                                      const Placement& placement,
                                      const std::vector<std::uint64_t>& hashes) {
  std::vector<std::byte> bytes(static_cast<std::size_t>(placement.directory_bytes));
  const std::uint64_t pool_offset = kDirectoryHeadBytes + kRecordBytes * tensors.size();
  store_le<std::uint64_t>(bytes.data(), tensors.size());
  store_le<std::uint64_t>(bytes.data() + 8, pool_offset);
  std::byte* record_at = bytes.data() + kDirectoryHeadBytes;
  std::byte* pool = bytes.data() + pool_offset;
  std::uint64_t name_offset = 0;
  for (std::size_t i = 0; i < tensors.size(); ++i, record_at += kRecordBytes) {
    const PlannedTensor& tensor = tensors[i];
    DirectoryRecord record;
    record.name_offset = checked_cast<std::uint32_t>(name_offset);
    record.name_length = checked_cast<std::uint16_t>(tensor.name.size());
    record.dtype = static_cast<std::uint8_t>(tensor.dtype);
    record.rank = checked_cast<std::uint8_t>(tensor.shape.size());
    for (std::size_t d = 0; d < tensor.shape.size(); ++d) {
      record.shape[d] = checked_cast<std::uint32_t>(tensor.shape[d]);
    }
    record.offset = placement.payload_offsets[i];
    record.nbytes = tensor.nbytes;
    record.hash = hashes[i];
    store_record(record_at, record);
    std::memcpy(pool + name_offset, tensor.name.data(), tensor.name.size());
    name_offset += tensor.name.size();
  }
  return bytes;
}

}  // namespace cortiq::cmf
