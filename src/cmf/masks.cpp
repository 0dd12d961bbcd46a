#include "masks.hpp"

#include "cortiq/cmf/header.hpp"
#include "layout.hpp"

namespace cortiq::cmf {
namespace {

constexpr std::uint64_t kSectionHeadBytes = 8;
constexpr std::uint64_t kIndexEntryBytes = 16;
constexpr std::string_view kRemedy = "the file is damaged; fetch or make it again";

Json parse_meta(ByteSpan text, std::string_view where) {
  const char* begin = reinterpret_cast<const char*>(text.data());
  // Without exceptions a damaged text yields a discarded value.
  Json meta = Json::parse(begin, begin + text.size(), nullptr, false);
  if (meta.is_discarded() || !meta.is_object()) {
    fail(ErrorKind::kInput, "{}: masks section: its description is not a JSON object; {}", where,
         kRemedy);
  }
  return meta;
}

std::optional<std::uint64_t> unsigned_at(const Json& object, const char* key) {
  const auto found = object.find(key);
  if (found == object.end() || !found->is_number_unsigned()) return std::nullopt;
  return found->get<std::uint64_t>();
}

std::string check_mask(const Json& mask, std::size_t index, std::size_t section_bytes,
                       std::string_view where) {
  if (!mask.is_object()) {
    fail(ErrorKind::kInput, "{}: masks section: mask {} is not described by a JSON object; {}",
         where, index, kRemedy);
  }
  const std::optional<std::uint64_t> offset = unsigned_at(mask, "blob_off");
  const std::optional<std::uint64_t> length = unsigned_at(mask, "blob_len");
  std::uint64_t end = 0;
  if (!offset || !length || add_overflows(*offset, *length, &end) || end > section_bytes) {
    fail(ErrorKind::kInput,
         "{}: masks section: the bits of mask {} are missing or pass the end of the section ({} "
         "bytes); {}",
         where, index, section_bytes, kRemedy);
  }
  for (const char* key : {"name", "task_id"}) {
    const auto found = mask.find(key);
    if (found == mask.end()) continue;
    if (found->is_string()) return found->get<std::string>();
    if (found->is_number_integer()) return found->dump();
  }
  return std::to_string(index);
}

}  // namespace

std::vector<std::string> read_mask_names(ByteSpan masks, std::string_view where) {
  std::vector<std::string> names;
  if (masks.empty()) return names;
  if (masks.size() < kSectionHeadBytes) {
    fail(ErrorKind::kInput, "{}: masks section: has {} bytes, needs at least {}; {}", where,
         masks.size(), kSectionHeadBytes, kRemedy);
  }
  const auto count = load_le<std::uint32_t>(masks.data());
  const auto meta_bytes = load_le<std::uint32_t>(masks.data() + 4);
  if (meta_bytes > masks.size() - kSectionHeadBytes) {
    fail(ErrorKind::kInput,
         "{}: masks section: a description of {} bytes does not fit in its {} bytes; {}", where,
         meta_bytes, masks.size(), kRemedy);
  }
  const Json meta = parse_meta(masks.subspan(kSectionHeadBytes, meta_bytes), where);
  const auto list = meta.find("masks");
  const std::size_t listed = list != meta.end() && list->is_array() ? list->size() : 0;
  if (listed != count) {
    fail(ErrorKind::kInput, "{}: masks section: holds {} masks but describes {}; {}", where, count,
         listed, kRemedy);
  }
  for (std::size_t i = 0; i < listed; ++i)
    names.push_back(check_mask((*list)[i], i, masks.size(), where));
  return names;
}

std::uint32_t read_mask_index_count(ByteSpan index, std::string_view where) {
  if (index.empty()) return 0;
  if (index.size() < kSectionHeadBytes) {
    fail(ErrorKind::kInput, "{}: index section: has {} bytes, needs at least {}; {}", where,
         index.size(), kSectionHeadBytes, kRemedy);
  }
  const auto count = load_le<std::uint32_t>(index.data());
  std::uint64_t at = kSectionHeadBytes;
  for (std::uint32_t i = 0; i < count; ++i) {
    std::uint64_t end = at + kIndexEntryBytes;
    if (end <= index.size()) {
      const std::uint64_t groups = load_le<std::uint32_t>(index.data() + at + 8);
      const std::uint64_t heads = load_le<std::uint32_t>(index.data() + at + 12);
      end = align_up(end + 2 * groups + heads, 4);
    }
    if (end > index.size()) {
      fail(ErrorKind::kInput,
           "{}: index section: entry {} of {} passes the end of the section ({} bytes); {}", where,
           i, count, index.size(), kRemedy);
    }
    at = end;
  }
  return count;
}

}  // namespace cortiq::cmf
