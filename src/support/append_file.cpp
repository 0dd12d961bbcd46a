#include "cortiq/support/append_file.hpp"

#include <fcntl.h>
#include <unistd.h>

#include <cerrno>
#include <utility>

#include "cortiq/support/file.hpp"
#include "io_error.hpp"

namespace cortiq {
namespace {

int open_to_append(const std::filesystem::path& path, int more = 0) {
  check_replaceable(path);  // opening a FIFO would wait for a reader
  return ::open(path.c_str(), O_WRONLY | O_APPEND | O_CLOEXEC | O_NOFOLLOW | more, 0666);
}

}  // namespace

AppendFile::AppendFile(std::filesystem::path path)
    : path_(std::move(path)), descriptor_(open_to_append(path_, O_CREAT | O_TRUNC)) {
  if (descriptor_ < 0) fail_io(path_, "cannot create", errno);
}

AppendFile::AppendFile(std::filesystem::path path, std::uint64_t bytes)
    : path_(std::move(path)), descriptor_(open_to_append(path_)) {
  if (descriptor_ < 0) fail_io(path_, "cannot open for writing", errno);
  if (::ftruncate(descriptor_, static_cast<off_t>(bytes)) != 0) {
    const int code = errno;
    ::close(descriptor_);
    fail_io(path_, "cannot cut to what is complete", code);
  }
}

AppendFile::~AppendFile() {
  if (descriptor_ >= 0) ::close(descriptor_);
}

void AppendFile::append(ByteSpan bytes) {
  while (!bytes.empty()) {
    const ssize_t written = ::write(descriptor_, bytes.data(), bytes.size());
    if (written < 0 && errno == EINTR) continue;
    if (written < 0) fail_io(path_, "cannot write", errno);
    bytes = bytes.subspan(static_cast<std::size_t>(written));
  }
}

void AppendFile::sync() {
  if (::fdatasync(descriptor_) != 0) fail_io(path_, "cannot sync to disk", errno);
}

}  // namespace cortiq
