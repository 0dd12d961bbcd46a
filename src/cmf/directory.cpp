#include "directory.hpp"

#include <algorithm>
#include <numeric>

#include "payload_tables.hpp"
#include "utf8.hpp"

namespace cortiq::cmf {
namespace {

constexpr std::size_t kMaxOverlapWarnings = 20;
constexpr std::string_view kRemedy = "the file is damaged; fetch or make it again";

/// Start of the name pool, after the checks that records and pool lie inside the section.
std::uint64_t check_frame(ByteSpan directory, std::string_view where) {
  if (directory.size() < kDirectoryHeadBytes) {
    fail(ErrorKind::kInput, "{}: directory: has {} bytes, needs at least {}; {}", where,
         directory.size(), kDirectoryHeadBytes, kRemedy);
  }
  const auto count = load_le<std::uint64_t>(directory.data());
  const auto pool = load_le<std::uint64_t>(directory.data() + 8);
  std::uint64_t records = 0;
  if (mul_overflows(count, kRecordBytes, &records) ||
      records > directory.size() - kDirectoryHeadBytes) {
    fail(ErrorKind::kInput, "{}: directory: {} records of {} bytes do not fit in its {} bytes; {}",
         where, count, kRecordBytes, directory.size(), kRemedy);
  }
  if (pool < kDirectoryHeadBytes + records || pool > directory.size()) {
    fail(ErrorKind::kInput,
         "{}: directory: the name pool starts at {}, must be between {} and {}; {}", where, pool,
         kDirectoryHeadBytes + records, directory.size(), kRemedy);
  }
  return pool;
}

DirectoryEntry make_entry(const DirectoryRecord& record, ByteSpan pool, std::uint64_t index,
                          std::string_view where) {
  const std::uint64_t name_end = std::uint64_t{record.name_offset} + record.name_length;
  if (name_end > pool.size()) {
    fail(ErrorKind::kInput,
         "{}: directory: record {}: name at {} with {} bytes passes the pool of {} bytes; {}",
         where, index, record.name_offset, record.name_length, pool.size(), kRemedy);
  }
  const char* name = reinterpret_cast<const char*>(pool.data()) + record.name_offset;
  DirectoryEntry entry;
  entry.info.name.assign(name, record.name_length);
  if (!is_utf8(entry.info.name)) {
    fail(ErrorKind::kInput, "{}: directory: record {}: its name is not UTF-8; {}", where, index,
         kRemedy);
  }
  if (record.rank > kMaxRank) {
    fail(ErrorKind::kInput, "{}: tensor {}: has {} dimensions, at most {} are allowed; {}", where,
         entry.info.name, record.rank, kMaxRank, kRemedy);
  }
  const std::optional<DType> dtype = try_dtype(record.dtype);
  if (!dtype) {
    fail(ErrorKind::kUnsupported,
         "{}: tensor {}: type id {} is not known; use a newer program or convert the file", where,
         entry.info.name, record.dtype);
  }
  entry.info.dtype = *dtype;
  entry.info.shape.assign(record.shape.begin(), record.shape.begin() + record.rank);
  entry.info.nbytes = record.nbytes;
  entry.info.hash = record.hash;
  entry.offset = record.offset;
  return entry;
}

void check_shape_and_size(const TensorInfo& info, std::string_view where) {
  std::uint64_t elements = 1;
  for (const std::int64_t extent : info.shape) {
    if (mul_overflows(elements, static_cast<std::uint64_t>(extent), &elements) ||
        elements > static_cast<std::uint64_t>(std::numeric_limits<std::int64_t>::max())) {
      fail(ErrorKind::kInput, "{}: tensor {}: shape {} has more elements than can be counted; {}",
           where, info.name, shape_text(info.shape), kRemedy);
    }
  }
  if (!has_fixed_size(info.dtype)) return;
  const std::optional<std::uint64_t> expected = fixed_payload_bytes(info.dtype, info.shape);
  if (!expected) {
    fail(ErrorKind::kInput, "{}: tensor {}: shape {} is not allowed for type {}; {}", where,
         info.name, shape_text(info.shape), dtype_name(info.dtype), kRemedy);
  }
  if (*expected != info.nbytes) {
    fail(ErrorKind::kInput, "{}: tensor {}: {} {} needs {} bytes, the directory says {}; {}", where,
         info.name, dtype_name(info.dtype), shape_text(info.shape), *expected, info.nbytes,
         kRemedy);
  }
}

}  // namespace

std::string shape_text(const std::vector<std::int64_t>& shape) {
  return fmt::format("[{}]", fmt::join(shape.begin(), shape.end(), ", "));
}

std::vector<DirectoryEntry> parse_directory(ByteSpan directory, std::string_view where) {
  const std::uint64_t pool_offset = check_frame(directory, where);
  const auto count = load_le<std::uint64_t>(directory.data());
  const ByteSpan pool = directory.subspan(static_cast<std::size_t>(pool_offset));
  std::vector<DirectoryEntry> entries;
  entries.reserve(static_cast<std::size_t>(count));
  for (std::uint64_t i = 0; i < count; ++i) {
    const DirectoryRecord record =
        load_record(directory.data() + kDirectoryHeadBytes + i * kRecordBytes);
    entries.push_back(make_entry(record, pool, i, where));
  }
  return entries;
}

void check_entry(const DirectoryEntry& entry, ByteSpan data, std::string_view where) {
  const TensorInfo& info = entry.info;
  if (entry.offset % kPayloadAlignment != 0) {
    fail(ErrorKind::kInput, "{}: tensor {}: offset {} is no multiple of {}; {}", where, info.name,
         entry.offset, kPayloadAlignment, kRemedy);
  }
  std::uint64_t end = 0;
  if (add_overflows(entry.offset, info.nbytes, &end) || end > data.size()) {
    fail(ErrorKind::kInput,
         "{}: tensor {}: offset {} and size {} pass the end of the data section ({} bytes); {}",
         where, info.name, entry.offset, info.nbytes, data.size(), kRemedy);
  }
  check_shape_and_size(info, where);
  const ByteSpan payload =
      data.subspan(static_cast<std::size_t>(entry.offset), static_cast<std::size_t>(info.nbytes));
  if (const std::string problem = payload_table_problem(info, payload); !problem.empty()) {
    fail(ErrorKind::kInput, "{}: tensor {}: {} {}: {}; {}", where, info.name,
         dtype_name(info.dtype), shape_text(info.shape), problem, kRemedy);
  }
}

std::vector<std::string> overlap_warnings(const std::vector<DirectoryEntry>& entries,
                                          std::string_view where) {
  std::vector<std::size_t> order(entries.size());
  std::iota(order.begin(), order.end(), std::size_t{0});
  std::stable_sort(order.begin(), order.end(), [&entries](std::size_t a, std::size_t b) {
    return entries[a].offset < entries[b].offset;
  });
  std::vector<std::string> warnings;
  std::size_t overlaps = 0;
  const DirectoryEntry* widest = nullptr;  // of those before, the one that reaches farthest
  for (const std::size_t i : order) {
    const DirectoryEntry& entry = entries[i];
    if (entry.info.nbytes == 0) continue;
    if (widest != nullptr && entry.offset < widest->offset + widest->info.nbytes &&
        ++overlaps <= kMaxOverlapWarnings) {
      warnings.push_back(fmt::format("{}: tensors {} and {} overlap in the data section", where,
                                     widest->info.name, entry.info.name));
    }
    if (widest == nullptr ||
        entry.offset + entry.info.nbytes > widest->offset + widest->info.nbytes) {
      widest = &entry;
    }
  }
  if (overlaps > kMaxOverlapWarnings) {
    warnings.push_back(fmt::format("{}: {} more tensors overlap in the data section", where,
                                   overlaps - kMaxOverlapWarnings));
  }
  return warnings;
}

}  // namespace cortiq::cmf
