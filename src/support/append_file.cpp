#include "cortiq/support/append_file.hpp"

#include <fcntl.h>
#include <unistd.h>

#include <cerrno>
#include <system_error>
#include <utility>

#include "cortiq/support/error.hpp"

namespace cortiq {
namespace {

[[noreturn]] void fail_io(const std::filesystem::path& path, std::string_view what, int code) {
  const char* remedy = code == ENOSPC || code == EDQUOT ? "; free some space" : "";
  fail(ErrorKind::kIo, "{}: {}: {}{}", path.string(), what, std::generic_category().message(code),
       remedy);
}

constexpr int kFlags = O_WRONLY | O_APPEND | O_CLOEXEC | O_NOFOLLOW;

}  // namespace

AppendFile::AppendFile(std::filesystem::path path)
    : path_(std::move(path)), descriptor_(::open(path_.c_str(), kFlags | O_CREAT | O_TRUNC, 0666)) {
  if (descriptor_ < 0) fail_io(path_, "cannot create", errno);
}

AppendFile::AppendFile(std::filesystem::path path, std::uint64_t bytes)
    : path_(std::move(path)), descriptor_(::open(path_.c_str(), kFlags)) {
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
