#include "payload_tables.hpp"

namespace cortiq::cmf {
namespace {

constexpr std::uint64_t kGroup = 32;
constexpr std::uint64_t kQ1GroupBytes = 6;
constexpr std::uint64_t kQ1sEntryBytes = 6;
constexpr std::uint64_t kQ1tGroupBytes = 9;
constexpr std::uint64_t kQ1tEntryBytes = 4;

struct Grid {
  std::uint64_t rows = 0;
  std::uint64_t columns = 0;
};

/// Rows and columns of a 2-D shape with whole groups in each row; nullopt otherwise.
std::optional<Grid> grid_of(const TensorInfo& info) {
  if (info.shape.size() != 2) return std::nullopt;
  const Grid grid{static_cast<std::uint64_t>(info.shape[0]),
                  static_cast<std::uint64_t>(info.shape[1])};
  if (grid.columns % kGroup != 0) return std::nullopt;
  return grid;
}

std::string wrong_size(std::uint64_t expected, std::size_t actual) {
  return fmt::format("its tables need {} bytes, it has {}", expected, actual);
}

bool is_vbit_width(std::uint8_t bits) { return (bits >= 3 && bits <= 6) || bits == 8; }

std::uint64_t packed_row_bytes(std::uint64_t columns, std::uint8_t bits) {
  return (columns * bits + 7) / 8;
}

/// @param with_offsets  vbit_ro: u32 offsets of the packed rows stand before them
std::string vbit_problem(const TensorInfo& info, ByteSpan payload, bool with_offsets) {
  const std::optional<Grid> grid = grid_of(info);
  if (!grid) return "the shape must be [rows, columns] with columns a multiple of 32";
  // Every row has at least one byte of the payload, every column at least a quarter: larger numbers
  // cannot be true, and the sums below cannot overflow.
  const std::uint64_t size = payload.size();
  if (grid->rows > size) return wrong_size(grid->rows, payload.size());
  if (grid->rows > 0 && grid->columns / 4 > size)
    return wrong_size(grid->columns / 4, payload.size());
  const std::uint64_t scales = 2 * static_cast<std::uint64_t>(info.elements()) / kGroup;
  std::uint64_t head = grid->rows + scales;
  if (with_offsets) head += 4 * (grid->rows + 1);
  if (head > size) return wrong_size(head, payload.size());
  const std::byte* offsets = payload.data() + grid->rows + scales;
  if (with_offsets && load_le<std::uint32_t>(offsets) != 0) return "row offset 0 is not 0";
  std::uint64_t packed = 0;
  for (std::uint64_t r = 0; r < grid->rows; ++r) {
    const auto bits = load_le<std::uint8_t>(payload.data() + r);
    if (!is_vbit_width(bits))
      return fmt::format("row {} has {} bits per weight, must be 3, 4, 5, 6 or 8", r, bits);
    packed += packed_row_bytes(grid->columns, bits);
    if (!with_offsets) continue;
    const auto offset = load_le<std::uint32_t>(offsets + 4 * (r + 1));
    if (offset != packed)
      return fmt::format("row offset {} is {}, must be {}", r + 1, offset, packed);
  }
  return head + packed == size ? std::string() : wrong_size(head + packed, payload.size());
}

std::string q1s_problem(const TensorInfo& info, ByteSpan payload) {
  const auto elements = static_cast<std::uint64_t>(info.elements());
  if (elements % kGroup != 0) return "the number of elements must be a multiple of 32";
  const std::uint64_t base = elements / kGroup * kQ1GroupBytes;
  if (base + 4 > payload.size()) return wrong_size(base + 4, payload.size());
  const auto count = load_le<std::uint32_t>(payload.data() + base);
  const std::uint64_t expected = base + 4 + kQ1sEntryBytes * count;
  if (expected != payload.size()) return wrong_size(expected, payload.size());
  const std::byte* entry = payload.data() + base + 4;
  for (std::uint32_t i = 0; i < count; ++i, entry += kQ1sEntryBytes) {
    const auto element = load_le<std::uint32_t>(entry);
    if (element >= elements) {
      return fmt::format("outlier {} names element {} of {}", i, element, elements);
    }
  }
  return {};
}

std::string q1t_problem(const TensorInfo& info, ByteSpan payload) {
  const std::optional<Grid> grid = grid_of(info);
  if (!grid) return "the shape must be [rows, columns] with columns a multiple of 32";
  if (grid->rows > payload.size()) return wrong_size(grid->rows, payload.size());
  const std::uint64_t base = static_cast<std::uint64_t>(info.elements()) / kGroup * kQ1tGroupBytes;
  const std::uint64_t head = base + 4 * (grid->rows + 1);
  if (head > payload.size()) return wrong_size(head, payload.size());
  const std::byte* row_ends = payload.data() + base;
  std::uint32_t previous = load_le<std::uint32_t>(row_ends);
  if (previous != 0) return fmt::format("outlier row pointer 0 is {}, must be 0", previous);
  for (std::uint64_t r = 1; r <= grid->rows; ++r) {
    const auto end = load_le<std::uint32_t>(row_ends + 4 * r);
    if (end < previous)
      return fmt::format("outlier row pointer {} is {}, below the one before ({})", r, end,
                         previous);
    previous = end;
  }
  const std::uint64_t expected = head + kQ1tEntryBytes * previous;
  if (expected != payload.size()) return wrong_size(expected, payload.size());
  const std::byte* entry = payload.data() + head;
  for (std::uint32_t i = 0; i < previous; ++i, entry += kQ1tEntryBytes) {
    const auto column = load_le<std::uint16_t>(entry);
    if (column >= grid->columns)
      return fmt::format("outlier {} names column {} of {}", i, column, grid->columns);
  }
  return {};
}

}  // namespace

std::string payload_table_problem(const TensorInfo& info, ByteSpan payload) {
  switch (info.dtype) {
    case DType::kVbit:
      return vbit_problem(info, payload, false);
    case DType::kVbitRo:
      return vbit_problem(info, payload, true);
    case DType::kQ1s:
      return q1s_problem(info, payload);
    case DType::kQ1t:
      return q1t_problem(info, payload);
    default:
      return {};
  }
}

}  // namespace cortiq::cmf
