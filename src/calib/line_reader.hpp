// line_reader.hpp: the lines of a large file, one at a time.
#pragma once

#include <cstddef>
#include <cstdint>
#include <string>
#include <string_view>

#include "read_file.hpp"

namespace cortiq::calib {

/// Hands out the lines of a file, without their newline.
class LineReader {
 public:
  /// @param offset      where the first line begins   @param line_limit  bytes; a longer line is
  /// Error{kInput}
  LineReader(const ReadFile& file, std::uint64_t offset, std::size_t line_limit)
      : file_(file), offset_(offset), line_limit_(line_limit) {}
  /// False at the end. The view is valid until the next call.
  bool next(std::string_view& line);

 private:
  void fill();

  static constexpr std::size_t kPieceBytes = 1 << 18;
  const ReadFile& file_;
  std::uint64_t offset_;
  std::size_t line_limit_;
  std::string buffer_;
  std::size_t begin_ = 0;    // of the next line
  std::size_t scanned_ = 0;  // no newline in [begin_, scanned_)
  bool end_of_file_ = false;
};

}  // namespace cortiq::calib
