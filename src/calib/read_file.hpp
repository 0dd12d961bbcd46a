// read_file.hpp: positioned reads from a regular file, safe from several threads. Unlike a memory
// map, a file that is cut short while it is read gives an Error and no signal.
#pragma once

#include <cstddef>
#include <cstdint>
#include <filesystem>
#include <span>

namespace cortiq::calib {

class ReadFile {
 public:
  /// Throws Error{kIo} where it cannot be opened, Error{kInput} where it is no regular file.
  explicit ReadFile(std::filesystem::path path);
  ~ReadFile();
  ReadFile(ReadFile&& other) noexcept;
  ReadFile& operator=(ReadFile&&) = delete;

  [[nodiscard]] const std::filesystem::path& path() const noexcept { return path_; }
  /// Bytes when it was opened.
  [[nodiscard]] std::uint64_t size() const noexcept { return size_; }
  /// Reads up to bytes.size() bytes at `offset`; fewer only at the end of the file.
  [[nodiscard]] std::size_t read_some(std::uint64_t offset, std::span<std::byte> bytes) const;
  /// Reads exactly bytes.size() bytes. Throws Error{kInput} where the file ends before.
  void read_exact(std::uint64_t offset, std::span<std::byte> bytes) const;

 private:
  std::filesystem::path path_;
  std::uint64_t size_ = 0;
  int descriptor_ = -1;
};

}  // namespace cortiq::calib
