// io_error.hpp: the message of a failed system call on a file, with what can be done about it.
#pragma once

#include <cerrno>
#include <filesystem>
#include <string_view>
#include <system_error>

#include "cortiq/support/error.hpp"

namespace cortiq {

/// "; free some space …"; empty where no advice fits the code.
inline std::string_view io_remedy(int code) {
  switch (code) {
    case ENOSPC:
    case EDQUOT:
      return "; free some space or choose another folder";
    case EFBIG:
      return "; raise the limit on the size of files (ulimit -f), or choose a file system that "
             "holds larger ones";
    case EACCES:
    case EROFS:
    case EPERM:
      return "; check the permissions of the file and its folder, or choose another place";
    case ENOENT:
      return "; check the path";
    default:
      return "";
  }
}

/// Throws Error{kIo}: "path: what: reason of the system; remedy".
[[noreturn]] inline void fail_io(const std::filesystem::path& path, std::string_view what,
                                 int code) {
  fail(ErrorKind::kIo, "{}: {}: {}{}", path.string(), what,
       std::generic_category().message(code), io_remedy(code));
}

}  // namespace cortiq
