// append_file.hpp: a log on disk that survives the process: what was appended is there after a
// kill, and after a power loss up to the last sync(). Every failure is Error{kIo} with path and reason.
#pragma once

#include <cstdint>
#include <filesystem>

#include "cortiq/support/bytes.hpp"

namespace cortiq {

class AppendFile {
 public:
  /// Creates or empties the file; refuses a symbolic link.
  explicit AppendFile(std::filesystem::path path);
  /// Keeps the first `bytes` of a file that exists and appends behind them.
  AppendFile(std::filesystem::path path, std::uint64_t bytes);
  ~AppendFile();
  AppendFile(const AppendFile&) = delete;
  AppendFile& operator=(const AppendFile&) = delete;

  [[nodiscard]] const std::filesystem::path& path() const noexcept { return path_; }
  void append(ByteSpan bytes);
  void sync();

 private:
  std::filesystem::path path_;
  int descriptor_ = -1;
};

}  // namespace cortiq
