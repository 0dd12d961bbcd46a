#include "damped.hpp"

#include <algorithm>
#include <span>
#include <vector>

#include "cortiq/gptq/group_block.hpp"

namespace cortiq::device {

namespace {

constexpr std::uint32_t kThreads = 256;
constexpr float kScaleLimit = 4096.0F;

/// |H_ij| <= the largest damped diagonal entry.
double largest_entry(const Scaling& scaling) {
  float least = scaling.inverse.front();
  for (const float value : scaling.inverse) least = std::min(least, value);
  return 1.0 / (static_cast<double>(least) * static_cast<double>(least));
}

}  // namespace

DampedHessian make_damped_hessian(const Engine& engine, vulkan::Stream& stream,
                                  const DeviceFactor& factor) {
  DampedHessian h;
  h.lines = engine.make_operand(factor.size, factor.size,
                                split_scale(largest_entry(factor.scaling), kScaleLimit));
  h.band = engine.device_buffer(4 * (factor.size + kBlockColumns) * kBlockColumns);
  layout::OperandPush push{};
  push.h = factor.h.address();
  push.channel = factor.channel.address();
  push.inverse = factor.inverse.address();
  push.out_lines = h.lines.line(0, 0);
  push.band = h.band.address();
  push.n = static_cast<std::uint32_t>(factor.n());
  push.size = static_cast<std::uint32_t>(factor.size);
  push.block = static_cast<std::uint32_t>(kBlockColumns);
  push.tiles = push.size / 32;
  push.base_inverse = static_cast<float>(1.0 / factor.scaling.base);
  push.scale = h.lines.scale;
  const std::uint32_t split[1] = {engine.split() ? 1U : 0U};
  stream.section("hessian operand");
  stream.dispatch(engine.pipeline(vulkan::Kernel::kHessianOperand, kThreads, split), push,
                  std::uint64_t{push.tiles} * push.tiles);
  return h;
}

void add_group_blocks(const Engine& engine, vulkan::Stream& stream, Pool& pool,
                      const DeviceFactor& factor, DampedHessian& h) {
  constexpr std::int64_t kSide = gptq::kBlockSide;
  const std::int64_t bands = (factor.n() + kBlockColumns - 1) / kBlockColumns;
  std::vector<float> band(static_cast<std::size_t>(bands * kBlockColumns * kBlockColumns));
  stream.barrier();
  download(engine, stream, h.band, 0, std::as_writable_bytes(std::span(band)));
  const std::int64_t groups = factor.n() / kSide;
  std::vector<float> blocks(static_cast<std::size_t>(groups * layout::kMoveFloats), 0.0F);
  pool.for_each(groups, [&](std::int64_t g) {
    const std::int64_t first = g * kSide;
    const float* from = band.data() + first * kBlockColumns + first % kBlockColumns;
    gptq::GroupBlock::Square own{};
    for (std::int64_t i = 0; i < kSide; ++i)
      std::copy_n(from + i * kBlockColumns, kSide, own.begin() + i * kSide);
    const gptq::GroupBlock block = gptq::make_group_block({own.data(), kSide, kSide});
    if (!block.usable) return;
    float* out = blocks.data() + g * layout::kMoveFloats;
    for (std::int64_t i = 0; i < kSide; ++i) {
      const double pivot = block.upper[static_cast<std::size_t>(i * (kSide + 1))];
      for (std::int64_t k = 0; k < kSide; ++k) {
        const auto at = static_cast<std::size_t>(i * kSide + k);
        out[at] = static_cast<float>(block.inverse[at]);
        if (k > i) out[1024 + at] = static_cast<float>(block.upper[at] / pivot);
      }
      out[2048 + i] = static_cast<float>(1.0 / pivot);
    }
  });
  Upload upload(engine, stream, pool);
  h.blocks = upload.vector(blocks);
}

}  // namespace cortiq::device
