#include "line_reader.hpp"

#include <span>

#include "cortiq/support/error.hpp"

namespace cortiq::calib {

bool LineReader::next(std::string_view& line) {
  for (;;) {
    const std::size_t newline = buffer_.find('\n', scanned_);
    if (newline != std::string::npos) {
      line = std::string_view(buffer_).substr(begin_, newline - begin_);
      begin_ = scanned_ = newline + 1;
      return true;
    }
    if (end_of_file_) break;
    fill();
  }
  if (begin_ == buffer_.size()) return false;
  line = std::string_view(buffer_).substr(begin_);
  begin_ = scanned_ = buffer_.size();
  return true;
}

void LineReader::fill() {
  buffer_.erase(0, begin_);
  begin_ = 0;
  scanned_ = buffer_.size();
  buffer_.resize(scanned_ + kPieceBytes);
  const std::span<std::byte> rest = std::as_writable_bytes(std::span(buffer_)).subspan(scanned_);
  const std::size_t got = file_.read_some(offset_, rest);
  buffer_.resize(scanned_ + got);
  offset_ += got;
  end_of_file_ = got < kPieceBytes;
  if (scanned_ > line_limit_) {
    fail(ErrorKind::kInput, "{}: has a line of more than {} bytes; write one document per line",
         file_.path().string(), line_limit_);
  }
}

}  // namespace cortiq::calib
