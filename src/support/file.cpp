#include "cortiq/support/file.hpp"

#include <fcntl.h>
#include <sys/file.h>
#include <sys/mman.h>
#include <sys/stat.h>
#include <sys/statvfs.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <cstdlib>
#include <system_error>
#include <utility>

#include "io_error.hpp"

namespace cortiq {
namespace {

namespace fs = std::filesystem;

std::string system_reason(int code) { return std::generic_category().message(code); }

fs::path parent_of(const fs::path& path) {
  const fs::path parent = path.parent_path();
  return parent.empty() ? fs::path(".") : parent;
}

void sync_folder(const fs::path& folder) {
  const int descriptor = ::open(folder.c_str(), O_RDONLY | O_DIRECTORY | O_CLOEXEC);
  if (descriptor < 0) return;  // the file itself is synced; some file systems refuse folders
  ::fsync(descriptor);
  ::close(descriptor);
}

/// Refuses a file with content that does not begin with `mark`: emptying it would destroy what is
/// not ours.
void check_mark(int descriptor, const fs::path& path, std::string_view mark) {
  std::string start(mark.size() + 1, '\0');
  const ssize_t got = ::pread(descriptor, start.data(), start.size(), 0);
  if (got < 0) fail_io(path, "cannot read", errno);
  start.resize(static_cast<std::size_t>(got));
  if (start.empty() || (!mark.empty() && start.starts_with(mark))) return;
  fail(ErrorKind::kRefused,
       "{}: exists and was not left behind by an unfinished run, but the output is written under "
       "this name first; move or remove it, or choose another output",
       path.string());
}

}  // namespace

MappedFile::MappedFile(const fs::path& path) : path_(path) {
  // O_NONBLOCK: a FIFO without a writer is refused below instead of waited for.
  const int descriptor = ::open(path.c_str(), O_RDONLY | O_CLOEXEC | O_NONBLOCK);
  if (descriptor < 0) fail_io(path, "cannot open for reading", errno);
  struct stat status {};
  if (::fstat(descriptor, &status) != 0) {
    const int code = errno;
    ::close(descriptor);
    fail_io(path, "cannot read its size", code);
  }
  if (!S_ISREG(status.st_mode)) {
    ::close(descriptor);
    fail(ErrorKind::kInput, "{}: is not a regular file; give the path of a file", path.string());
  }
  size_ = static_cast<std::size_t>(status.st_size);
  if (size_ > 0) {
    void* mapped = ::mmap(nullptr, size_, PROT_READ, MAP_PRIVATE, descriptor, 0);
    const int code = errno;
    ::close(descriptor);
    if (mapped == MAP_FAILED) fail_io(path, "cannot map into memory", code);
    data_ = static_cast<const std::byte*>(mapped);
  } else {
    ::close(descriptor);
  }
}

MappedFile::~MappedFile() {
  if (data_ != nullptr) ::munmap(const_cast<std::byte*>(data_), size_);
}

MappedFile::MappedFile(MappedFile&& other) noexcept
    : path_(std::move(other.path_)),
      data_(std::exchange(other.data_, nullptr)),
      size_(std::exchange(other.size_, 0)) {}

MappedFile& MappedFile::operator=(MappedFile&& other) noexcept {
  std::swap(path_, other.path_);
  std::swap(data_, other.data_);
  std::swap(size_, other.size_);
  return *this;
}

void MappedFile::release(ByteSpan part) const noexcept {
  if (data_ == nullptr || part.empty()) return;
  const std::size_t page = static_cast<std::size_t>(::sysconf(_SC_PAGESIZE));
  const auto offset = static_cast<std::size_t>(part.data() - data_);
  const std::size_t begin = (offset + page - 1) / page * page;
  const std::size_t end = (offset + part.size()) / page * page;
  if (end > begin) ::madvise(const_cast<std::byte*>(data_) + begin, end - begin, MADV_DONTNEED);
}

std::optional<FileIdentity> file_identity(const fs::path& path) {
  struct stat status {};
  if (::stat(path.c_str(), &status) != 0) return std::nullopt;
  return FileIdentity{static_cast<std::uint64_t>(status.st_dev),
                      static_cast<std::uint64_t>(status.st_ino)};
}

bool is_out_of_room(int code) noexcept {
  return code == ENOSPC || code == EDQUOT || code == EFBIG;
}

void check_replaceable(const fs::path& path) {
  struct stat status {};
  if (::lstat(path.c_str(), &status) != 0 || S_ISREG(status.st_mode)) return;
  const auto refuse = [&](std::string_view what) {
    fail(ErrorKind::kIo, "{}: {}", path.string(), what);
  };
  if (S_ISDIR(status.st_mode))
    refuse("is a folder; give the path of a file, or remove it if it is in the way");
  // Renaming over a link would replace the link; writing through it, what it leads to.
  if (S_ISLNK(status.st_mode))
    refuse("is a symbolic link; give the path that it leads to, or remove it");
  refuse("is not a regular file; choose another place");
}

std::string read_text_file(const fs::path& path, std::uint64_t limit_bytes) {
  const MappedFile file(path);
  const ByteSpan bytes = file.bytes();
  if (bytes.size() > limit_bytes) {
    fail(ErrorKind::kInput, "{}: has {} bytes, more than the {} that are allowed here; check that it is the right file",
         path.string(), bytes.size(), limit_bytes);
  }
  return std::string(reinterpret_cast<const char*>(bytes.data()), bytes.size());
}

std::optional<std::uint64_t> free_space_bytes(const fs::path& path) {
  struct statvfs status {};
  if (::statvfs(parent_of(path).c_str(), &status) != 0) return std::nullopt;
  return static_cast<std::uint64_t>(status.f_bavail) * static_cast<std::uint64_t>(status.f_frsize);
}

void AtomicFile::check_partial(const fs::path& final_path, std::string_view mark) {
  const fs::path path = final_path.string() + ".partial";
  check_replaceable(path);
  std::error_code ignored;
  if (!fs::exists(path, ignored)) return;
  const int descriptor = ::open(path.c_str(), O_RDONLY | O_CLOEXEC);
  if (descriptor < 0) fail_io(path, "cannot open for reading", errno);
  try {
    check_mark(descriptor, path, mark);
  } catch (...) {
    ::close(descriptor);
    throw;
  }
  ::close(descriptor);
}

AtomicFile::AtomicFile(fs::path final_path, Naming naming, std::string_view mark)
    : final_path_(std::move(final_path)) {
  check_replaceable(final_path_);
  if (naming != Naming::kUnique) {
    temporary_path_ = final_path_;
    temporary_path_ += ".partial";
    check_replaceable(temporary_path_);
    // A link of this name was made by somebody else and may lead to a file that must not be
    // emptied.
    const int create = naming == Naming::kPartial ? O_CREAT : 0;
    descriptor_ = ::open(temporary_path_.c_str(), O_RDWR | create | O_CLOEXEC | O_NOFOLLOW, 0666);
    if (descriptor_ < 0) fail_io(temporary_path_, "cannot create", errno);
    if (::flock(descriptor_, LOCK_EX | LOCK_NB) != 0) {
      ::close(descriptor_);
      descriptor_ = -1;
      fail(ErrorKind::kIo,
           "{}: another process is writing this file; wait for it or choose another output",
           temporary_path_.string());
    }
    if (naming == Naming::kPartial) start_partial(mark);
  } else {
    std::string name = final_path_.string() + ".XXXXXX.tmp";
    descriptor_ = ::mkostemps(name.data(), 4, O_CLOEXEC);
    if (descriptor_ < 0) fail_io(final_path_, "cannot create a temporary file beside it", errno);
    const mode_t mask = ::umask(0);
    ::umask(mask);
    ::fchmod(descriptor_, 0666 & ~mask);
    temporary_path_ = name;
  }
}

void AtomicFile::start_partial(std::string_view mark) {
  try {
    check_mark(descriptor_, temporary_path_, mark);
    resize(0);
    write_at(0, std::as_bytes(std::span(mark)));
  } catch (...) {
    ::close(descriptor_);  // no destructor runs
    throw;
  }
}

AtomicFile::~AtomicFile() {
  if (!committed_ && !keep_ && descriptor_ >= 0) ::unlink(temporary_path_.c_str());
  if (descriptor_ >= 0) ::close(descriptor_);
}

void AtomicFile::reserve(std::uint64_t bytes) {
  if (bytes == 0) return;
  const int code = ::posix_fallocate(descriptor_, 0, static_cast<off_t>(bytes));
  if (code == ENOSPC || code == EDQUOT || code == EFBIG) {
    fail(ErrorKind::kRefused, "{}: cannot reserve {} bytes: {}{}", final_path_.string(), bytes,
         system_reason(code), io_remedy(code));
  }
}

void AtomicFile::resize(std::uint64_t bytes) {
  if (::ftruncate(descriptor_, static_cast<off_t>(bytes)) != 0)
    fail_io(temporary_path_, fmt::format("cannot be set to {} bytes", bytes), errno);
}

void AtomicFile::write_at(std::uint64_t offset, ByteSpan bytes) {
  while (!bytes.empty()) {
    const ssize_t written =
        ::pwrite(descriptor_, bytes.data(), bytes.size(), static_cast<off_t>(offset));
    if (written < 0) {
      if (errno == EINTR) continue;
      fail_io(temporary_path_,
              fmt::format("cannot write {} bytes at offset {}", bytes.size(), offset), errno);
    }
    offset += static_cast<std::uint64_t>(written);
    bytes = bytes.subspan(static_cast<std::size_t>(written));
  }
}

void AtomicFile::append(ByteSpan bytes) {
  write_at(append_offset_, bytes);
  append_offset_ += bytes.size();
}

void AtomicFile::read_at(std::uint64_t offset, std::span<std::byte> bytes) const {
  while (!bytes.empty()) {
    const ssize_t got =
        ::pread(descriptor_, bytes.data(), bytes.size(), static_cast<off_t>(offset));
    if (got < 0 && errno == EINTR) continue;
    if (got < 0) fail_io(temporary_path_, "cannot read back", errno);
    if (got == 0)
      fail(ErrorKind::kIo, "{}: ends before offset {}; another program has cut it, so start anew", temporary_path_.string(),
           offset + bytes.size());
    offset += static_cast<std::uint64_t>(got);
    bytes = bytes.subspan(static_cast<std::size_t>(got));
  }
}

std::uint64_t AtomicFile::size() const {
  struct stat status {};
  if (::fstat(descriptor_, &status) != 0) fail_io(temporary_path_, "cannot read its size", errno);
  return static_cast<std::uint64_t>(status.st_size);
}

void AtomicFile::sync() {
  if (::fdatasync(descriptor_) != 0) fail_io(temporary_path_, "cannot sync to disk", errno);
}

void AtomicFile::commit() {
  if (::fsync(descriptor_) != 0) fail_io(temporary_path_, "cannot sync to disk", errno);
  if (::rename(temporary_path_.c_str(), final_path_.c_str()) != 0) {
    fail_io(final_path_, "cannot rename the finished file to this name", errno);
  }
  committed_ = true;
  sync_folder(parent_of(final_path_));
}

void write_text_file(const fs::path& path, std::string_view text) {
  AtomicFile file(path, AtomicFile::Naming::kUnique);
  file.append(std::as_bytes(std::span(text)));
  file.commit();
}

}  // namespace cortiq
