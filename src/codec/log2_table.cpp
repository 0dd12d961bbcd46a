#include "log2_table.hpp"

#include <array>
#include <memory>

#include "cortiq/codec/ladder.hpp"
#include "scalar_math.hpp"

namespace cortiq::codec {

namespace {

constexpr std::size_t kEntries = 0x7C00 - kTinyHalf + 1;
using Table = std::array<float, kEntries>;

std::unique_ptr<const Table> make_table() {
  auto table = std::make_unique<Table>();
  for (std::size_t i = 0; i < kEntries; ++i) {
    (*table)[i] = det_log2(f16_to_f32(static_cast<std::uint16_t>(kTinyHalf + i)));
  }
  return table;
}

}  // namespace

float scale_log2(std::uint16_t scale_bits) noexcept {
  static const std::unique_ptr<const Table> table = make_table();
  return (*table)[static_cast<std::size_t>(scale_bits - kTinyHalf)];
}

}  // namespace cortiq::codec
