#include "hessian_spill.hpp"

#include <fcntl.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <cstdlib>
#include <span>
#include <string>
#include <system_error>

#include "cortiq/support/bytes.hpp"
#include "cortiq/support/file.hpp"

namespace cortiq::calib {
namespace {

/// Rows are gathered to pieces of about this size.
constexpr std::size_t kPieceBytes = std::size_t{4} << 20;

[[noreturn]] void fail_spill(const std::filesystem::path& folder, std::string_view what, int code) {
  fail(is_out_of_room(code) ? ErrorKind::kRefused : ErrorKind::kIo,
       "{}: temporary file for Hessians: {}: {}; choose another folder with --spill, or raise "
       "--mem-gb",
       folder.string(), what, std::generic_category().message(code));
}

/// Rows [first, last) of the triangle whose lengths add up to at most a piece, at least one.
std::int64_t end_of_piece(std::int64_t n, std::int64_t first) {
  std::int64_t last = first + 1;
  auto values = static_cast<std::size_t>(n - first);
  while (last < n && (values + static_cast<std::size_t>(n - last)) * sizeof(double) <= kPieceBytes)
    values += static_cast<std::size_t>(n - last++);
  return last;
}

}  // namespace

std::uint64_t spilled_hessian_bytes(std::int64_t n) {
  const auto size = static_cast<std::uint64_t>(n);
  return sizeof(double) * (size * (size + 1) / 2);
}

HessianSpill::HessianSpill(const std::filesystem::path& folder,
                           const std::vector<std::int64_t>& widths)
    : folder_(folder), widths_(widths) {
  std::uint64_t bytes = 0;
  for (const std::int64_t width : widths) {
    offsets_.push_back(bytes);
    bytes += spilled_hessian_bytes(width);
  }
  std::string name = (folder / "hessians-XXXXXX").string();
  descriptor_ = ::mkostemp(name.data(), O_CLOEXEC);
  if (descriptor_ < 0) fail_spill(folder, "cannot create", errno);
  ::unlink(name.c_str());
  const int code = ::posix_fallocate(descriptor_, 0, static_cast<off_t>(bytes));
  if (code == 0 || code == EINVAL || code == EOPNOTSUPP) return;
  ::close(descriptor_);
  fail_spill(folder, fmt::format("cannot reserve {} bytes", bytes), code);
}

HessianSpill::~HessianSpill() {
  if (descriptor_ >= 0) ::close(descriptor_);
}

void HessianSpill::write(std::size_t index, const Hessian& hessian) {
  const std::int64_t n = widths_[index];
  CORTIQ_ASSERT(hessian.n() == n);
  std::vector<double> piece;
  auto offset = static_cast<off_t>(offsets_[index]);
  for (std::int64_t first = 0; first < n;) {
    const std::int64_t last = end_of_piece(n, first);
    piece.clear();
    for (; first < last; ++first) {
      const double* row = hessian.view().row(first);
      piece.insert(piece.end(), row + first, row + n);
    }
    ByteSpan rest = std::as_bytes(std::span(piece));
    while (!rest.empty()) {
      const ssize_t written = ::pwrite(descriptor_, rest.data(), rest.size(), offset);
      if (written < 0 && errno == EINTR) continue;
      if (written < 0) fail_spill(folder_, "cannot write", errno);
      offset += written;
      rest = rest.subspan(static_cast<std::size_t>(written));
    }
  }
}

std::unique_ptr<Hessian> HessianSpill::read(std::size_t index) const {
  const std::int64_t n = widths_[index];
  auto hessian = std::make_unique<Hessian>(n);
  std::vector<double> piece;
  auto offset = static_cast<off_t>(offsets_[index]);
  for (std::int64_t first = 0; first < n;) {
    const std::int64_t last = end_of_piece(n, first);
    const std::int64_t values = (last - first) * (2 * n - first - last + 1) / 2;
    piece.resize(static_cast<std::size_t>(values));
    std::span<std::byte> rest = std::as_writable_bytes(std::span(piece));
    while (!rest.empty()) {
      const ssize_t got = ::pread(descriptor_, rest.data(), rest.size(), offset);
      if (got < 0 && errno == EINTR) continue;
      if (got <= 0) fail_spill(folder_, "cannot read back", got < 0 ? errno : EIO);
      offset += got;
      rest = rest.subspan(static_cast<std::size_t>(got));
    }
    const double* from = piece.data();
    for (; first < last; from += n - first, ++first)
      std::copy_n(from, n - first, hessian->view().row(first) + first);
  }
  return hessian;
}

}  // namespace cortiq::calib
