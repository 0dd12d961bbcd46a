#include "verify_layout.hpp"

#include <algorithm>
#include <array>

namespace cortiq::cmf {
namespace {

constexpr std::size_t kFlagsOffset = 0x08;

struct Section {
  const char* name;
  Range range;
};

std::array<Section, 6> sections_of(const Envelope& e) {
  return {{{"header", e.header},
           {"directory", e.directory},
           {"data", e.data},
           {"masks", e.masks},
           {"vocab", e.vocab},
           {"index", e.index}}};
}

void check_envelope(const Shard& shard, std::string_view where, VerifyReport* report) {
  const Envelope& e = shard.envelope;
  if (const auto flags = load_le<std::uint32_t>(shard.file.bytes().data() + kFlagsOffset);
      flags != 0) {
    report->warnings.push_back(
        fmt::format("{}: envelope: flags is {:#x}; writers leave 0 there", where, flags));
  }
  for (const Section& section : {Section{"masks", e.masks}, {"vocab", e.vocab}, {"index", e.index}}) {
    if (section.range.length > 0 || section.range.offset == 0) continue;
    report->problems.push_back(
        fmt::format("{}: envelope: {} section: offset {} without a length; an absent section has "
                    "0 in both, so the file is damaged",
                    where, section.name, section.range.offset));
  }
  for (const auto& [name, hash] :
       {std::pair{"header", e.header_hash}, std::pair{"directory", e.directory_hash}}) {
    if (hash != 0) continue;
    report->warnings.push_back(fmt::format(
        "{}: envelope: no hash of the {} is recorded, so its damage cannot be seen", where, name));
  }
}

void check_recorded_hashes(const Shard& shard, std::string_view where, VerifyReport* report) {
  const Json& header = shard.header.json();
  const auto hashes = header.find("section_hashes");
  for (const Section& section : sections_of(shard.envelope)) {
    const std::string_view name = section.name;
    if (section.range.length == 0 || name == "header" || name == "directory" || name == "data")
      continue;
    if (hashes != header.end() && hashes->is_object() && hashes->contains(name)) continue;
    report->warnings.push_back(fmt::format(
        "{}: header: section_hashes has no {}, so damage of that section cannot be seen", where,
        name));
  }
}

void check_overlaps(const Shard& shard, std::string_view where, VerifyReport* report) {
  auto sections = sections_of(shard.envelope);
  std::stable_sort(sections.begin(), sections.end(), [](const Section& a, const Section& b) {
    return a.range.offset < b.range.offset;
  });
  Section last{"envelope", {0, kEnvelopeBytes}};
  for (const Section& section : sections) {
    if (section.range.length == 0) continue;
    const std::uint64_t end = last.range.offset + last.range.length;
    // Programs that append leave old sections in the data range, never others' bytes.
    if (section.range.offset < end) {
      report->problems.push_back(fmt::format(
          "{}: envelope: {} section begins at {}, inside of the {} that ends at {}; the file is "
          "damaged",
          where, section.name, section.range.offset, last.name, end));
    }
    if (section.range.offset + section.range.length > end) last = section;
  }
}

/// Bytes of the file that no range covers, in order.
std::vector<Range> gaps_between(std::vector<Range> used, std::uint64_t file_bytes) {
  std::sort(used.begin(), used.end(),
            [](const Range& a, const Range& b) { return a.offset < b.offset; });
  used.push_back({file_bytes, 0});
  std::vector<Range> gaps;
  std::uint64_t cursor = 0;
  for (const Range& range : used) {
    if (range.offset > cursor) gaps.push_back({cursor, range.offset - cursor});
    cursor = std::max(cursor, range.offset + range.length);
  }
  return gaps;
}

void check_gaps(const Shard& shard, const std::vector<Range>& payloads, std::string_view where,
                VerifyReport* report) {
  const Envelope& e = shard.envelope;
  std::vector<Range> used{{0, kEnvelopeBytes}};
  for (const Range& range : payloads) used.push_back(range);
  for (const Section& section : sections_of(e)) {
    if (section.range.length > 0 && std::string_view(section.name) != "data")
      used.push_back(section.range);
  }
  std::uint64_t end = 0;
  for (const Range& range : used) end = std::max(end, range.offset + range.length);
  std::uint64_t strange = 0;
  std::uint64_t first = 0;
  for (const Range& gap : gaps_between(std::move(used), shard.file.bytes().size())) {
    const ByteSpan bytes = shard.section(gap);
    for (std::size_t i = 0; i < bytes.size(); ++i) {
      if (bytes[i] == std::byte{0}) continue;
      if (strange++ == 0) first = gap.offset + i;
    }
    shard.file.release(bytes);
  }
  const bool appended_to =
      e.header.offset != kEnvelopeBytes && e.directory.offset != kEnvelopeBytes;
  if (strange > 0) {
    (appended_to ? report->warnings : report->problems)
        .push_back(fmt::format("{}: {} bytes that belong to nothing are not zero, the first at "
                               "offset {}; {}",
                               where, strange, first,
                               appended_to ? "remains of an older state, or damage"
                                           : "the file is damaged"));
  }
  if (shard.file.bytes().size() > end) {
    report->warnings.push_back(fmt::format("{}: {} bytes lie behind the last section", where,
                                           shard.file.bytes().size() - end));
  }
}

void check_data_range(const Shard& shard, const std::vector<Range>& payloads,
                      std::string_view where, VerifyReport* report) {
  const Range& data = shard.envelope.data;
  std::uint64_t end = data.offset;
  for (const Range& range : payloads) end = std::max(end, range.offset + range.length);
  if (data.length == 0 || data.offset + data.length == end) return;
  report->warnings.push_back(
      fmt::format("{}: envelope: data section has {} bytes, its tensors end after {}", where,
                  data.length, end - data.offset));
}

}  // namespace

void verify_layout(const Shard& shard, const std::vector<Range>& payloads, VerifyReport* report) {
  const std::string where = shard.file.path().string();
  check_envelope(shard, where, report);
  check_recorded_hashes(shard, where, report);
  check_overlaps(shard, where, report);
  check_data_range(shard, payloads, where, report);
  check_gaps(shard, payloads, where, report);
}

}  // namespace cortiq::cmf
