// damped.hpp: H_d / base on the device in elimination order, for polish, output energy and debias.
#pragma once

#include "factor.hpp"

namespace cortiq::device {

struct DampedHessian {
  Operand lines;        ///< [size, size], K = row
  vulkan::Buffer band;  ///< [size/256][256][256] diagonal blocks, f32
  vulkan::Buffer blocks;  ///< [n/32][kMoveFloats], where groups move (layout.h)
};

/// Records the kernel; no barrier. 4 n^2 bytes.
[[nodiscard]] DampedHessian make_damped_hessian(const Engine& engine, vulkan::Stream& stream,
                                                const DeviceFactor& factor);

/// Fills h.blocks from h.band, on the host in f64 (32 x 32 each); waits for the stream.
void add_group_blocks(const Engine& engine, vulkan::Stream& stream, Pool& pool,
                      const DeviceFactor& factor, DampedHessian& h);

}  // namespace cortiq::device
