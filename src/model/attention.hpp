// attention.hpp: causal grouped-query attention of a batch of windows, tile by tile: memory grows
// with the tokens of a batch, never with the square of a window.
#pragma once

#include <cstdint>
#include <span>
#include <vector>

#include "cortiq/model/layer_weights.hpp"
#include "cortiq/support/parallel.hpp"
#include "cortiq/support/view.hpp"
#include "rope.hpp"

namespace cortiq::model {

/// Rows [first_row, first_row + rows) of a batch are one window.
struct WindowRows {
  std::int64_t first_row = 0;
  std::int64_t rows = 0;
};

/// Keys and values of one batch, packed for the kernel. Kept between calls to reuse the memory.
struct AttentionBuffers {
  std::vector<float> keys;
  std::vector<float> values;
  [[nodiscard]] static std::uint64_t bytes(const Arch& arch, std::int64_t rows);
};

/// @param qkv    [rows, query_width + kv_heads*(head_dim + v_head_dim)], products without bias;
/// bias,
///               norms and rotation are applied in place. With an output gate a query head is
///               [q; gate]
/// @param mixed  [rows, heads*v_head_dim], written
void attention(const Arch& arch, bool sliding, const LayerWeights& weights, const RopeTable& rope,
               std::span<const WindowRows> windows, MatrixView<float> qkv, MatrixView<float> mixed,
               AttentionBuffers& buffers, Pool& pool);

}  // namespace cortiq::model
