#include "engine.hpp"

#include <algorithm>
#include <cmath>
#include <vector>

namespace cortiq::device {

namespace {

constexpr std::int64_t kSmallEdge = 64;  // of a tile, where tiles of 128 would leave most of the device idle
constexpr std::int64_t kRowGrain = 16;
constexpr std::int64_t kFewTiles = 200;
constexpr std::uint32_t kCooperativeShared = 36864;  // two tiles of 128 lines of 144 bytes
constexpr float kSplitRange = 32768.0F;              // half of what an f16 holds

bool few_tiles(const Product& p) {
  return p.m / layout::kTile * (p.n / layout::kTile) < kFewTiles;
}

}  // namespace

Engine::Engine(std::shared_ptr<vulkan::Context> context, Path path)
    : context_(std::move(context)), path_(path) {
  CORTIQ_ASSERT(path != Path::kCooperative || cooperative_possible(*context_));
}

bool Engine::cooperative_possible(const vulkan::Context& context) {
  return context.has(vulkan::Kernel::kOperandGemmCoop) &&
         context.adapter().shared_bytes >= kCooperativeShared;
}

vulkan::Buffer Engine::device_buffer(std::int64_t bytes) const {
  return context_->allocate(static_cast<std::uint64_t>(bytes), vulkan::MemoryKind::kDevice);
}

Operand Engine::make_operand(std::int64_t rows, std::int64_t k, float scale) const {
  Operand operand;
  operand.rows = rows;
  operand.chunks = k / layout::kChunk;
  operand.scale = split() ? scale : 1.0F;
  operand.lines = device_buffer(128 * rows * operand.chunks);
  return operand;
}

const vulkan::Pipeline& Engine::pipeline(vulkan::Kernel kernel, std::uint32_t threads,
                                         std::span<const std::uint32_t> more) const {
  std::vector<std::uint32_t> constants{threads};
  constants.insert(constants.end(), more.begin(), more.end());
  return context_->pipeline(kernel, constants);
}

const vulkan::Pipeline& Engine::cooperative_kernel(const Product& p, std::int64_t edge) const {
  const std::uint32_t constants[2] = {p.high_only ? 1U : 3U, static_cast<std::uint32_t>(edge)};
  return pipeline(vulkan::Kernel::kOperandGemmCoop, static_cast<std::uint32_t>(2 * edge), constants);
}

const vulkan::Pipeline& Engine::plain_kernel(std::int64_t edge) const {
  const std::uint32_t constants[1] = {static_cast<std::uint32_t>(edge)};
  return pipeline(vulkan::Kernel::kOperandGemm, static_cast<std::uint32_t>(edge * edge / 64), constants);
}

void Engine::multiply(vulkan::Stream& stream, const Product& p) const {
  CORTIQ_ASSERT(p.m % layout::kTile == 0 && p.n % layout::kTile == 0 && p.k % layout::kChunk == 0);
  if (p.m == 0 || p.n == 0 || p.k == 0) return;
  layout::GemmPush push{};
  push.a = p.a->line(p.a_row, p.a_chunk);
  push.b = p.b->line(p.b_row, p.b_chunk);
  push.c = p.c;
  push.a_rows = static_cast<std::uint32_t>(p.a->rows);
  push.b_rows = static_cast<std::uint32_t>(p.b->rows);
  push.c_stride = static_cast<std::uint32_t>(p.c_stride);
  push.chunks = static_cast<std::uint32_t>(p.k / layout::kChunk);
  const std::int64_t edge = few_tiles(p) ? kSmallEdge : layout::kTile;
  push.tiles_m = static_cast<std::uint32_t>(p.m / edge);
  push.tiles_n = static_cast<std::uint32_t>(p.n / edge);
  push.flags = p.flags;
  push.row0 = static_cast<std::uint32_t>(p.row0);
  push.col0 = static_cast<std::uint32_t>(p.col0);
  push.k0 = static_cast<std::uint32_t>(p.k0);
  push.alpha = static_cast<float>(p.alpha / (static_cast<double>(p.a->scale) *
                                             static_cast<double>(p.b->scale)));
  stream.dispatch(split() ? cooperative_kernel(p, edge) : plain_kernel(edge), push, std::uint64_t{push.tiles_m} * push.tiles_n);
  double flops = 2.0 * static_cast<double>(p.m) * static_cast<double>(p.n) * static_cast<double>(p.k);
  if ((p.flags & (layout::kGemmLowerOnly | layout::kGemmTriangularB | layout::kGemmUpperB)) != 0)
    flops /= 2;
  if (p.high_only && split()) flops /= 3;
  stream.account(flops);
}

float largest_magnitude(ConstMatrixView<float> m, Pool& pool) {
  std::vector<float> rows(static_cast<std::size_t>(m.rows()), 0.0F);
  pool.for_ranges(m.rows(), kRowGrain, [&](std::int64_t begin, std::int64_t end) {
    for (std::int64_t r = begin; r < end; ++r) {
      float& most = rows[static_cast<std::size_t>(r)];
      for (std::int64_t c = 0; c < m.cols(); ++c) most = std::max(most, std::fabs(m(r, c)));
    }
  });
  return rows.empty() ? 0.0F : *std::max_element(rows.begin(), rows.end());
}

float split_scale(double bound, float limit) {
  if (!(bound > 0) || !std::isfinite(bound)) return limit;
  const double scale = std::exp2(std::floor(std::log2(static_cast<double>(kSplitRange) / bound)));
  return std::clamp(static_cast<float>(scale), 1.0F / kSplitRange, limit);
}

}  // namespace cortiq::device
