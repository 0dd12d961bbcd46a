#include "read_file.hpp"

#include <fcntl.h>
#include <sys/stat.h>
#include <unistd.h>

#include <cerrno>
#include <system_error>
#include <utility>

#include "cortiq/support/error.hpp"

namespace cortiq::calib {
namespace {

[[noreturn]] void fail_system(const std::filesystem::path& path, std::string_view what, int code) {
  const char* remedy = "";
  if (code == ENOENT) remedy = "; check the path";
  if (code == EACCES || code == EPERM)
    remedy = "; check the permissions of the file and its folder";
  fail(ErrorKind::kIo, "{}: {}: {}{}", path.string(), what, std::generic_category().message(code),
       remedy);
}

}  // namespace

ReadFile::ReadFile(std::filesystem::path path) : path_(std::move(path)) {
  // O_NONBLOCK: opening a pipe without a writer must not hang; it has no effect on regular files.
  descriptor_ = ::open(path_.c_str(), O_RDONLY | O_CLOEXEC | O_NONBLOCK);
  if (descriptor_ < 0) fail_system(path_, "cannot open for reading", errno);
  struct stat status {};
  const bool known = ::fstat(descriptor_, &status) == 0;
  const int code = errno;
  if (known && S_ISREG(status.st_mode)) {
    size_ = static_cast<std::uint64_t>(status.st_size);
    return;
  }
  ::close(descriptor_);
  if (!known) fail_system(path_, "cannot read its size", code);
  fail(ErrorKind::kInput, "{}: is not a regular file; give the path of a file", path_.string());
}

ReadFile::~ReadFile() {
  if (descriptor_ >= 0) ::close(descriptor_);
}

ReadFile::ReadFile(ReadFile&& other) noexcept
    : path_(std::move(other.path_)),
      size_(std::exchange(other.size_, 0)),
      descriptor_(std::exchange(other.descriptor_, -1)) {}

std::size_t ReadFile::read_some(std::uint64_t offset, std::span<std::byte> bytes) const {
  std::size_t done = 0;
  while (done < bytes.size()) {
    const ssize_t got = ::pread(descriptor_, bytes.data() + done, bytes.size() - done,
                                static_cast<off_t>(offset + done));
    if (got < 0 && errno == EINTR) continue;
    if (got < 0) fail_system(path_, "cannot read", errno);
    if (got == 0) break;
    done += static_cast<std::size_t>(got);
  }
  return done;
}

void ReadFile::read_exact(std::uint64_t offset, std::span<std::byte> bytes) const {
  const std::size_t got = read_some(offset, bytes);
  if (got < bytes.size()) {
    fail(ErrorKind::kInput,
         "{}: ends at byte {}, but {} bytes at offset {} belong to it; the file is cut short",
         path_.string(), offset + got, bytes.size(), offset);
  }
}

}  // namespace cortiq::calib
