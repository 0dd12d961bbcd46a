// file.hpp: memory-mapped input, whole-file reads, output that appears under its name only when
// complete. Every failure is Error{kIo} (kInput where a file is not what it should be) with the
// path and the system's reason.
#pragma once

#include <cstddef>
#include <cstdint>
#include <filesystem>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "cortiq/support/bytes.hpp"

namespace cortiq {

/// Read-only map of a whole regular file. Moveable. An empty file has an empty span.
class MappedFile {
 public:
  explicit MappedFile(const std::filesystem::path& path);
  ~MappedFile();
  MappedFile(MappedFile&& other) noexcept;
  MappedFile& operator=(MappedFile&& other) noexcept;

  [[nodiscard]] const std::filesystem::path& path() const noexcept { return path_; }
  [[nodiscard]] ByteSpan bytes() const noexcept { return {data_, size_}; }
  /// Tells the system that this part will not be needed soon, so that it does not count as resident
  /// memory.
  void release(ByteSpan part) const noexcept;

 private:
  std::filesystem::path path_;
  const std::byte* data_ = nullptr;
  std::size_t size_ = 0;
};

/// Device and inode: two paths with equal identity are one file (symbolic and hard links included).
struct FileIdentity {
  std::uint64_t device = 0;
  std::uint64_t inode = 0;
  bool operator==(const FileIdentity&) const = default;
};
/// nullopt if the path does not exist.
[[nodiscard]] std::optional<FileIdentity> file_identity(const std::filesystem::path& path);

/// Whether an errno says that no more room is there: disk, quota, limit on file sizes.
[[nodiscard]] bool is_out_of_room(int code) noexcept;

/// Error{kIo} if something is there that no output may take the place of: a folder, a symbolic link
/// (its target would stay as it is and the link go), a device, FIFO or socket.
void check_replaceable(const std::filesystem::path& path);

/// Whole file as bytes. Refuses files above `limit_bytes` with Error{kInput}.
[[nodiscard]] std::string read_text_file(const std::filesystem::path& path,
                                         std::uint64_t limit_bytes = std::uint64_t{1} << 32);

/// Bytes that an unprivileged user can still write in the folder of `path` (which need not exist).
[[nodiscard]] std::optional<std::uint64_t> free_space_bytes(const std::filesystem::path& path);

/// Writes to a private temporary sibling and renames it over the final name in commit(). A file
/// that was not committed is removed by the destructor, unless keep_partial() was called.
class AtomicFile {
 public:
  enum class Naming {
    kPartial,  ///< FINAL.partial: one writer at a time (locked), may be kept for resume; begins with
               ///< a mark until its own beginning is written
    kKept,     ///< the same, which must exist, with its content
    kUnique,   ///< FINAL.<random>.tmp: for caches that several processes may write
  };
  /// @param mark  with kPartial; how the unfinished files of this kind begin. Error{kRefused} if a
  /// FINAL.partial is there that begins otherwise: somebody else's. As check_replaceable() for both
  /// names.
  AtomicFile(std::filesystem::path final_path, Naming naming, std::string_view mark = {});
  ~AtomicFile();
  AtomicFile(const AtomicFile&) = delete;
  AtomicFile& operator=(const AtomicFile&) = delete;

  [[nodiscard]] const std::filesystem::path& final_path() const noexcept { return final_path_; }
  [[nodiscard]] const std::filesystem::path& temporary_path() const noexcept {
    return temporary_path_;
  }
  /// Reserves `bytes` on disk, so that a full disk shows before the work. No-op where the system
  /// cannot.
  void reserve(std::uint64_t bytes);
  /// As check_replaceable(); Error{kRefused} if FINAL.partial exists, is not empty and does not begin with `mark`.
  static void check_partial(const std::filesystem::path& final_path, std::string_view mark);
  /// Cuts the file to `bytes`, or lengthens it with zeros.
  void resize(std::uint64_t bytes);
  /// Writes all of `bytes` at `offset`. Safe from several threads for disjoint ranges.
  void write_at(std::uint64_t offset, ByteSpan bytes);
  /// Appends behind the last append.
  void append(ByteSpan bytes);
  [[nodiscard]] std::uint64_t appended_bytes() const noexcept { return append_offset_; }
  /// The next append goes to `offset`: with kKept, behind what is taken over.
  void append_behind(std::uint64_t offset) noexcept { append_offset_ = offset; }
  [[nodiscard]] std::uint64_t size() const;
  /// Reads back what was written.
  void read_at(std::uint64_t offset, std::span<std::byte> bytes) const;
  void keep_partial() noexcept { keep_ = true; }
  /// What was written so far reaches the disk.
  void sync();
  /// fsync, rename over the final name, fsync of the folder.
  void commit();

 private:
  /// Empties the open file, which must be ours, and puts the mark there.
  void start_partial(std::string_view mark);

  std::filesystem::path final_path_;
  std::filesystem::path temporary_path_;
  std::uint64_t append_offset_ = 0;
  int descriptor_ = -1;
  bool committed_ = false;
  bool keep_ = false;
};

/// Small text output through AtomicFile.
void write_text_file(const std::filesystem::path& path, std::string_view text);

}  // namespace cortiq
