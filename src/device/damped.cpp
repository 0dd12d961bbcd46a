#include "damped.hpp"

#include <algorithm>
#include <span>

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

}  // namespace cortiq::device
