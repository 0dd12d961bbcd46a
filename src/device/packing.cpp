#include "packing.hpp"

#include "cortiq/codec/ladder.hpp"
#include "cortiq/support/error.hpp"

namespace cortiq::device {

namespace {

constexpr std::int64_t kGroup = 32;
constexpr std::uint32_t kThreads = 256;
constexpr double kOperationsPerWeight = 8;

std::uint32_t u32(std::uint64_t value) {
  CORTIQ_ASSERT(value <= 0xFFFFFFFFU);
  return static_cast<std::uint32_t>(value);
}

codec::PlaneLayout planes(const Packing& packing) {
  return codec::plane_layout(packing.bits, packing.rows, kGroup * packing.groups);
}

}  // namespace

std::uint64_t payload_bytes(const Packing& packing) { return planes(packing).bytes; }

void pack_payload(const Engine& engine, vulkan::Stream& stream, const Packing& packing) {
  CORTIQ_ASSERT(packing.bits == 4 || packing.bits == 2);
  if (packing.rows == 0 || packing.groups == 0) return;
  const codec::PlaneLayout plane = planes(packing);
  const auto first = static_cast<std::uint64_t>(packing.first_row);
  const auto rows = static_cast<std::uint64_t>(packing.rows);
  const auto groups = static_cast<std::uint64_t>(packing.groups);
  layout::PackPush push{};
  push.codes = packing.codes + 16 * first * groups;
  push.rungs = packing.rungs + 4 * first * groups;
  push.params = packing.params + 4 * first;
  push.position = packing.position;
  push.payload = packing.payload;
  push.zero_groups = packing.zero_groups;
  push.groups = u32(groups);
  push.rows = u32(rows);
  push.rung_row_bytes = u32(static_cast<std::uint64_t>(plane.rung_row_bytes));
  push.rung_words = u32((plane.bytes - plane.rungs_offset + 3) / 4);
  CORTIQ_ASSERT(rows * groups <= 0xFFFFFFFFU && std::uint64_t{push.rung_words} * 4 <= 0xFFFFFFFFU);
  const std::uint64_t threads = rows * groups + rows + push.rung_words;
  const std::uint32_t bits[1] = {static_cast<std::uint32_t>(packing.bits)};
  stream.dispatch(engine.pipeline(vulkan::Kernel::kCodesPack, kThreads, bits), push,
                  (threads + kThreads - 1) / kThreads);
  stream.account(kOperationsPerWeight * static_cast<double>(kGroup * packing.groups) *
                 static_cast<double>(rows));
}

}  // namespace cortiq::device
