#include <algorithm>
#include <system_error>
#include <unordered_set>
#include <utility>

#include "cache_identity.hpp"
#include "cache_layout.hpp"
#include "cortiq/calib/hessian_cache.hpp"
#include "cortiq/calib/sha256.hpp"
#include "cortiq/support/error.hpp"
#include "cortiq/support/file.hpp"
#include "utf8.hpp"

namespace cortiq::calib {
namespace {

/// Rows are gathered to pieces of this size; a longer row is written as it is.
constexpr std::size_t kBufferBytes = std::size_t{4} << 20;
constexpr std::uint64_t kEntryCountOffset = 8;

std::uint64_t entry_bytes(const std::vector<std::string>& names, std::int64_t cols) {
  std::uint64_t bytes =
      4 + layout::kEntryFixedBytes + layout::payload_bytes(static_cast<std::uint64_t>(cols), true);
  for (const std::string& name : names) bytes += 4 + name.size();
  return bytes;
}

}  // namespace

std::uint64_t cache_bytes(const std::vector<model::InputGroup>& groups) {
  std::uint64_t bytes = layout::kFileHeaderBytes;
  for (const model::InputGroup& group : groups) bytes += entry_bytes(group.tensors, group.width);
  return bytes;
}

struct HessianCacheWriter::State {
  State(std::filesystem::path final_path, std::optional<std::uint64_t> expected,
        AtomicFile::Naming naming)
      : path(std::move(final_path)), file(path, naming, layout::kMagic), expected_entries(expected) {
    buffer.reserve(kBufferBytes);
  }
  void begin() {
    put_bytes(std::as_bytes(std::span(layout::kMagic)));
    put(expected_entries.value_or(0));
  }
  /// Whether the file begins with these bytes; then they are hashed and count as written.
  [[nodiscard]] bool take_over(const CachePrefix& prefix);

  template <typename T>
  void put(T value) {
    put_bytes(std::as_bytes(std::span(&value, 1)));
  }
  void put_bytes(ByteSpan bytes) {
    if (buffer.size() + bytes.size() > kBufferBytes) flush();
    if (bytes.size() >= kBufferBytes) {
      write(bytes);
    } else {
      buffer.insert(buffer.end(), bytes.begin(), bytes.end());
    }
  }
  void flush() {
    write(buffer);
    buffer.clear();
  }
  void write(ByteSpan bytes) {
    file.append(bytes);
    if (expected_entries) hash.update(bytes);
  }
  void check_names(const std::vector<std::string>& added);
  [[nodiscard]] std::string finish_hash();
  /// Removes a stale sidecar, then puts the file under its name.
  [[nodiscard]] CacheFileFacts commit_file();

  std::filesystem::path path;
  AtomicFile file;
  std::optional<std::uint64_t> expected_entries;
  std::vector<std::byte> buffer;
  Sha256 hash;
  std::uint64_t entries = 0;
  std::unordered_set<std::string> names;
};

void HessianCacheWriter::State::check_names(const std::vector<std::string>& added) {
  for (const std::string& name : added) {
    if (name.empty() || name.size() > layout::kMaxNameBytes || !is_utf8(name)) {
      fail(ErrorKind::kInput,
           "{}: a tensor name of {} bytes cannot be stored (1 to {} bytes of UTF-8); rename it", path.string(),
           name.size(), layout::kMaxNameBytes);
    }
    if (!names.insert(name).second) {
      fail(ErrorKind::kInput, "{}: tensor {} has a Hessian in this file already", path.string(),
           name);
    }
  }
}

/// Writes the entry count if it was not known, and returns the hash of the finished file.
std::string HessianCacheWriter::State::finish_hash() {
  flush();
  if (expected_entries == entries) return hash.finish();
  file.write_at(kEntryCountOffset, std::as_bytes(std::span(&entries, 1)));
  Sha256 second;
  std::vector<std::byte> piece(kBufferBytes);
  for (std::uint64_t offset = 0; offset < file.appended_bytes(); offset += piece.size()) {
    piece.resize(static_cast<std::size_t>(
        std::min<std::uint64_t>(kBufferBytes, file.appended_bytes() - offset)));
    file.read_at(offset, piece);
    second.update(piece);
  }
  return second.finish();
}

CacheFileFacts HessianCacheWriter::State::commit_file() {
  CacheFileFacts facts;
  facts.sha256 = finish_hash();
  facts.entries = entries;
  facts.bytes = file.appended_bytes();
  std::error_code ignored;
  std::filesystem::remove(sidecar_path(path), ignored);
  file.resize(facts.bytes);  // an unfinished file that lay about may have grown
  file.commit();
  return facts;
}

bool HessianCacheWriter::State::take_over(const CachePrefix& prefix) {
  if (file.size() < prefix.bytes) return false;
  Sha256 sum;
  std::vector<std::byte> piece(kBufferBytes);
  for (std::uint64_t offset = 0; offset < prefix.bytes; offset += piece.size()) {
    piece.resize(
        static_cast<std::size_t>(std::min<std::uint64_t>(kBufferBytes, prefix.bytes - offset)));
    file.read_at(offset, piece);
    sum.update(piece);
  }
  if (sum.peek() != prefix.sha256) return false;
  hash = std::move(sum);
  file.append_behind(prefix.bytes);
  entries = prefix.entries;
  return true;
}

HessianCacheWriter::HessianCacheWriter(std::filesystem::path path,
                                       std::optional<std::uint64_t> entries)
    : state_(std::make_unique<State>(std::move(path), entries, AtomicFile::Naming::kUnique)) {
  check_sidecar(state_->path);
  state_->begin();
}
HessianCacheWriter::HessianCacheWriter(std::unique_ptr<State> state) : state_(std::move(state)) {}
HessianCacheWriter::HessianCacheWriter(HessianCacheWriter&&) noexcept = default;
HessianCacheWriter::~HessianCacheWriter() = default;

HessianCacheWriter HessianCacheWriter::resumable(std::filesystem::path path, std::uint64_t entries,
                                                 const std::optional<CachePrefix>& kept) {
  check_place(path);
  const std::filesystem::path partial = path.string() + ".partial";
  if (kept && file_identity(partial)) {
    auto state = std::make_unique<State>(path, entries, AtomicFile::Naming::kKept);
    if (state->take_over(*kept)) return HessianCacheWriter(std::move(state));
  }
  auto state = std::make_unique<State>(std::move(path), entries, AtomicFile::Naming::kPartial);
  state->begin();
  return HessianCacheWriter(std::move(state));
}

void HessianCacheWriter::check_place(const std::filesystem::path& path) {
  check_sidecar(path);
  AtomicFile::check_partial(path, layout::kMagic);  // as a finished one begins
}

std::uint64_t HessianCacheWriter::entries() const { return state_->entries; }
void HessianCacheWriter::keep_partial() { state_->file.keep_partial(); }

CachePrefix HessianCacheWriter::sync() {
  state_->flush();
  state_->file.sync();
  return {state_->entries, state_->file.appended_bytes(), state_->hash.peek()};
}

void HessianCacheWriter::reserve(std::uint64_t bytes) { state_->file.reserve(bytes); }

void HessianCacheWriter::add(const std::vector<std::string>& names, const Hessian& hessian) {
  State& out = *state_;
  out.check_names(names);
  const std::int64_t n = hessian.n();
  const auto cols = static_cast<std::uint64_t>(n);
  const ConstMatrixView<double> h = hessian.view();
  out.put(static_cast<std::uint32_t>(names.size()));
  for (const std::string& name : names) {
    out.put(static_cast<std::uint32_t>(name.size()));
    out.put_bytes(std::as_bytes(std::span(name)));
  }
  out.put(cols);
  out.put(static_cast<std::uint64_t>(hessian.count));
  out.put(cols * cols);
  CORTIQ_ASSERT(hessian.sum_squares.empty() || hessian.sum_squares.size() == cols);
  for (std::int64_t i = 0; i < n; ++i) {
    out.put(hessian.sum_squares.empty() ? h(i, i)
                                        : hessian.sum_squares[static_cast<std::size_t>(i)]);
  }
  for (std::int64_t i = 0; i < n; ++i) {
    out.put_bytes(std::as_bytes(std::span(h.row(i) + i, static_cast<std::size_t>(n - i))));
  }
  ++out.entries;
}

void HessianCacheWriter::commit(const CacheIdentity& identity) {
  const CacheFileFacts facts = state_->commit_file();
  write_text_file(sidecar_path(state_->path), identity_to_json(identity, facts));
}

void HessianCacheWriter::commit_without_identity() { (void)state_->commit_file(); }

}  // namespace cortiq::calib
