#include "cache_index.hpp"

#include <algorithm>
#include <limits>
#include <span>
#include <unordered_set>
#include <utility>

#include "cache_layout.hpp"
#include "cortiq/support/bytes.hpp"
#include "cortiq/support/error.hpp"
#include "utf8.hpp"

namespace cortiq::calib {
namespace {

class Indexer {
 public:
  explicit Indexer(const ReadFile& file) : file_(file), buffer_(kBufferBytes) {}

  CacheIndex run() {
    CacheIndex index;
    const std::uint64_t entries = read_file_header();
    for (entry_ = 1; entry_ <= entries; ++entry_) index.entries.push_back(read_entry());
    if (offset_ < file_.size()) index.footer = read_footer();
    return index;
  }

 private:
  static constexpr std::size_t kBufferBytes = std::size_t{1} << 16;
  static constexpr std::uint64_t kMaxFooterBytes = std::uint64_t{64} << 20;

  template <typename... Args>
  [[noreturn]] void fail_entry(fmt::format_string<Args...> format, Args&&... args) const {
    fail(ErrorKind::kInput, "{}: entry {} at offset {}: {}; the cache is damaged, capture it again",
         file_.path().string(), entry_, entry_offset_,
         fmt::format(format, std::forward<Args>(args)...));
  }
  [[nodiscard]] std::uint64_t remaining() const { return file_.size() - offset_; }

  std::uint64_t read_file_header();
  CacheEntry read_entry();
  std::string read_name();
  std::string read_footer();

  /// Next `count` bytes, at most kBufferBytes, which the caller has checked to be there.
  const std::byte* take(std::size_t count) {
    if (offset_ < buffer_begin_ || offset_ + count > buffer_begin_ + buffer_filled_) {
      buffer_begin_ = offset_;
      buffer_filled_ = file_.read_some(offset_, buffer_);
      if (buffer_filled_ < count) fail_entry("the file became shorter while it was read");
    }
    const std::byte* bytes = buffer_.data() + (offset_ - buffer_begin_);
    offset_ += count;
    return bytes;
  }
  template <typename T>
  T take_value(std::string_view what) {
    if (remaining() < sizeof(T)) fail_entry("the file ends inside its {}", what);
    return load_le<T>(take(sizeof(T)));
  }

  const ReadFile& file_;
  std::vector<std::byte> buffer_;
  std::uint64_t buffer_begin_ = 0;
  std::size_t buffer_filled_ = 0;
  std::uint64_t offset_ = 0;
  std::uint64_t entry_ = 0;  // 1-based, for messages
  std::uint64_t entry_offset_ = 0;
  std::unordered_set<std::string> names_;
};

std::uint64_t Indexer::read_file_header() {
  const std::string path = file_.path().string();
  if (file_.size() < layout::kFileHeaderBytes) {
    fail(ErrorKind::kInput, "{}: not a Hessian cache: it has {} bytes and the header alone has {}; give a CMFHESS1 file",
         path, file_.size(), layout::kFileHeaderBytes);
  }
  const std::byte* header = take(static_cast<std::size_t>(layout::kFileHeaderBytes));
  const std::string_view magic(reinterpret_cast<const char*>(header), layout::kMagic.size());
  if (magic != layout::kMagic) {
    fail(ErrorKind::kInput, "{}: not a Hessian cache: it does not begin with {}; give another path",
         path, layout::kMagic);
  }
  const auto entries = load_le<std::uint64_t>(header + layout::kMagic.size());
  if (entries > file_.size() / layout::kMinEntryBytes) {
    fail(ErrorKind::kInput,
         "{}: says that it has {} entries, which do not fit into its {} bytes; the cache is "
         "damaged, capture "
         "it again",
         path, entries, file_.size());
  }
  return entries;
}

std::string Indexer::read_name() {
  const auto length = take_value<std::uint32_t>("names");
  if (length > layout::kMaxNameBytes)
    fail_entry("a name of {} bytes; at most {} are allowed", length, layout::kMaxNameBytes);
  if (length > remaining()) fail_entry("the file ends inside a name of {} bytes", length);
  std::string name(reinterpret_cast<const char*>(take(length)), length);
  if (!is_utf8(name)) fail_entry("a name is not UTF-8");
  if (!names_.insert(name).second) fail_entry("the name {} occurs twice", name);
  return name;
}

CacheEntry Indexer::read_entry() {
  entry_offset_ = offset_;
  const auto n_names = take_value<std::uint32_t>("number of names");
  if (n_names > remaining() / 4)
    fail_entry("{} names do not fit into the {} bytes that follow", n_names, remaining());
  CacheEntry entry;
  for (std::uint32_t i = 0; i < n_names; ++i) entry.names.push_back(read_name());
  const auto cols = take_value<std::uint64_t>("width");
  const auto count = take_value<std::uint64_t>("count");
  const auto elements = take_value<std::uint64_t>("matrix size");
  if (cols < 1 || cols > static_cast<std::uint64_t>(kMaxHessianCols)) {
    fail_entry("{} columns; 1 to {} are possible", cols, kMaxHessianCols);
  }
  if (elements != 0 && elements != cols * cols) {
    fail_entry("a matrix of {} elements for {} columns; it must be {} or 0", elements, cols,
               cols * cols);
  }
  entry.cols = static_cast<std::int64_t>(cols);
  // Nothing but comparisons is done with the count: a value beyond any corpus is kept as the
  // greatest there is.
  entry.count = static_cast<std::int64_t>(
      std::min<std::uint64_t>(count, std::numeric_limits<std::int64_t>::max()));
  entry.has_triangle = elements != 0;
  entry.payload_offset = offset_;
  const std::uint64_t bytes = layout::payload_bytes(cols, entry.has_triangle);
  if (bytes > remaining()) {
    fail_entry("its {} bytes of numbers at offset {} pass the end of the file ({} bytes)", bytes,
               offset_, file_.size());
  }
  offset_ += bytes;
  return entry;
}

std::string Indexer::read_footer() {
  const std::uint64_t rest = remaining();
  std::byte tail[16];
  if (rest >= sizeof(tail)) {
    file_.read_exact(file_.size() - sizeof(tail), tail);
    const std::string_view magic(reinterpret_cast<const char*>(tail + 8),
                                 layout::kFooterMagic.size());
    if (magic == layout::kFooterMagic && load_le<std::uint64_t>(tail) == rest - sizeof(tail) &&
        rest <= kMaxFooterBytes) {
      std::string footer(static_cast<std::size_t>(rest - sizeof(tail)), '\0');
      file_.read_exact(offset_, std::as_writable_bytes(std::span(footer)));
      return footer;
    }
  }
  fail(ErrorKind::kInput,
       "{}: {} bytes follow the last entry, which ends at offset {}; the cache is damaged, capture "
       "it again",
       file_.path().string(), rest, offset_);
}

}  // namespace

CacheIndex read_cache_index(const ReadFile& file) { return Indexer(file).run(); }

}  // namespace cortiq::calib
