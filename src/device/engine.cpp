#include "engine.hpp"

#include <algorithm>
#include <cmath>
#include <vector>

namespace cortiq::device {

namespace {

constexpr std::int64_t kSmallEdge = 64;  // of a tile, where tiles of 128 x 128 would leave most of the device idle
constexpr std::uint32_t kNarrowThreads = 128;
constexpr std::int64_t kRowGrain = 16;
constexpr std::int64_t kFewTiles = 200;
constexpr std::uint32_t kCooperativeShared = 36864;  // two tiles of 128 lines of 144 bytes
constexpr float kSplitRange = 32768.0F;              // half of what an f16 holds

bool few_tiles(const Product& p) {
  return p.m / layout::kTile * (p.n / layout::kTile) < kFewTiles;
}

double flops_of(const Product& p) {
  constexpr std::uint32_t kHalf = layout::kGemmLowerOnly | layout::kGemmTriangularB | layout::kGemmBehindB;
  const auto depth = static_cast<double>((p.flags & layout::kGemmDiagonalB) != 0 ? layout::kTile : p.k);
  return ((p.flags & kHalf) != 0 ? 1.0 : 2.0) * static_cast<double>(p.m) * static_cast<double>(p.n) * depth;
}

}  // namespace

Engine::Engine(std::shared_ptr<vulkan::Context> context, Path path)
    : context_(std::move(context)), path_(path) {
  CORTIQ_ASSERT(path != Path::kCooperative || cooperative_possible(*context_));
}

bool Engine::cooperative_possible(const vulkan::Context& context) {
  return cooperative_possible(context.adapter());
}

bool Engine::cooperative_possible(const vulkan::Adapter& adapter) {
  return adapter.cooperative_matrix && adapter.shared_bytes >= kCooperativeShared &&
         !vulkan::shader_info(vulkan::Kernel::kOperandGemmCoop).words.empty();
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

Engine::Tiling Engine::tiling(const Product& p) const {
  const std::int64_t edge = few_tiles(p) ? kSmallEdge : layout::kTile;
  const auto tile = static_cast<std::uint32_t>(edge);
  if (split()) {
    const std::uint32_t constants[2] = {p.high_only ? 1U : 3U, tile};
    return {pipeline(vulkan::Kernel::kOperandGemmCoop, 2 * tile, constants), edge, edge};
  }
  if (few_tiles(p) && p.from_c)
    return {pipeline(vulkan::Kernel::kOperandGemmNarrow, kNarrowThreads), kSmallEdge, layout::kTile};
  const std::uint32_t constants[1] = {tile};
  return {pipeline(vulkan::Kernel::kOperandGemm, tile * tile / 64, constants), edge, edge};
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
  const Tiling tiles = tiling(p);
  push.tiles_m = static_cast<std::uint32_t>(p.m / tiles.rows);
  push.tiles_n = static_cast<std::uint32_t>(p.n / tiles.columns);
  push.flags = p.flags;
  push.row0 = static_cast<std::uint32_t>(p.row0);
  push.col0 = static_cast<std::uint32_t>(p.col0);
  push.k0 = static_cast<std::uint32_t>(p.k0);
  push.alpha = static_cast<float>(p.alpha / (static_cast<double>(p.a->scale) *
                                             static_cast<double>(p.b->scale)));
  stream.dispatch(tiles.kernel, push, std::uint64_t{push.tiles_m} * push.tiles_n);
  const double flops = flops_of(p);
  stream.account(p.high_only && split() ? flops / 3 : flops);
}

void Engine::multiply_half(vulkan::Stream& stream, const Product& product) const {
  Product p = product;
  p.flags = layout::kGemmBehindB;
  p.alpha = 2 * product.alpha;
  multiply(stream, p);
  stream.barrier();
  p.flags = layout::kGemmAdd | layout::kGemmDiagonalB;
  p.alpha = product.alpha;
  multiply(stream, p);
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
