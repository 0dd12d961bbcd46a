#include <algorithm>
#include <cstring>

#include "engine.hpp"

namespace cortiq::device {

namespace {

constexpr std::uint64_t kStagingBytes = 64 * 1024 * 1024;
constexpr std::int64_t kRowGrain = 16;

}  // namespace

Upload::Upload(const Engine& engine, vulkan::Stream& stream, Pool& pool)
    : engine_(engine), stream_(stream), pool_(pool) {}

void Upload::stage(std::uint64_t bytes, const std::function<void(std::byte*)>& fill,
                   const vulkan::Buffer& to, std::uint64_t offset) {
  vulkan::Buffer& buffer = staging_[next_];
  stream_.wait(pending_[next_]);  // its last copy may still be under way
  if (buffer.empty() || buffer.bytes() < bytes) {
    buffer = engine_.context().allocate(std::max(bytes, std::min(kStagingBytes, to.bytes())),
                                        vulkan::MemoryKind::kUpload);
  }
  fill(buffer.mapped());
  stream_.copy(buffer, 0, to, offset, bytes);
  pending_[next_] = stream_.flush();
  next_ = 1 - next_;
}

void Upload::rows(const vulkan::Buffer& to, std::int64_t rows, const RowBytes& row_bytes,
                  const Fill& fill) {
  std::uint64_t offset = 0;
  for (std::int64_t first = 0; first < rows;) {
    std::vector<std::uint64_t> starts;
    std::uint64_t bytes = 0;
    std::int64_t end = first;
    while (end < rows && (end == first || bytes + row_bytes(end) <= kStagingBytes)) {
      starts.push_back(bytes);
      bytes += row_bytes(end++);
    }
    stage(
        bytes,
        [&](std::byte* out) {
          pool_.for_ranges(end - first, kRowGrain, [&](std::int64_t b, std::int64_t e) {
            for (std::int64_t i = b; i < e; ++i)
              fill(first + i, out + starts[static_cast<std::size_t>(i)]);
          });
        },
        to, offset);
    offset += bytes;
    first = end;
  }
}

void Upload::bytes(const vulkan::Buffer& to, std::span<const std::byte> data) {
  for (std::uint64_t offset = 0; offset < data.size(); offset += kStagingBytes) {
    const std::uint64_t count = std::min<std::uint64_t>(kStagingBytes, data.size() - offset);
    stage(
        count, [&](std::byte* out) { std::memcpy(out, data.data() + offset, count); }, to, offset);
  }
}

void download(const Engine& engine, vulkan::Stream& stream, const vulkan::Buffer& from,
              std::uint64_t offset, std::span<std::byte> out) {
  if (out.empty()) return;
  const std::uint64_t part = std::min<std::uint64_t>(kStagingBytes, out.size());
  const vulkan::Buffer staging = engine.context().allocate(part, vulkan::MemoryKind::kReadback);
  for (std::uint64_t done = 0; done < out.size(); done += part) {
    const std::uint64_t count = std::min<std::uint64_t>(part, out.size() - done);
    stream.copy(from, offset + done, staging, 0, count);
    stream.finish();
    std::memcpy(out.data() + done, staging.mapped(), count);
  }
}

}  // namespace cortiq::device
