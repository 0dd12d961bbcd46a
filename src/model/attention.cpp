#include "attention.hpp"

#include <algorithm>
#include <array>
#include <limits>

#include "cortiq/support/cpu.hpp"
#include "kernels.hpp"

namespace cortiq::model {
namespace {

/// A run of rows of one window. `panel` is the window's first panel in the packed buffers.
struct RowBlock {
  std::int64_t first_row = 0;  // in the batch
  std::int64_t position = 0;   // of first_row in its window
  std::int64_t rows = 0;
  std::int64_t panel = 0;
  std::int64_t panels = 0;  // of the window
};

std::int64_t panels_of(std::int64_t rows) { return (rows + kKeyPanel - 1) / kKeyPanel; }

std::int64_t padded_values(const Arch& arch) {
  return (arch.v_head_dim + kValuePad - 1) / kValuePad * kValuePad;
}

std::vector<RowBlock> cut(std::span<const WindowRows> windows, std::int64_t block) {
  std::vector<RowBlock> blocks;
  std::int64_t panel = 0;
  for (const WindowRows& window : windows) {
    const std::int64_t panels = panels_of(window.rows);
    for (std::int64_t i = 0; i < window.rows; i += block) {
      blocks.push_back({window.first_row + i, i, std::min(block, window.rows - i), panel, panels});
    }
    panel += panels;
  }
  return blocks;
}

class Attention {
 public:
  Attention(const Arch& arch, bool sliding, const LayerWeights& weights, const RopeTable& rope,
            MatrixView<float> qkv, MatrixView<float> mixed, AttentionBuffers& buffers,
            SimdLevel simd)
      : arch_(arch),
        weights_(weights),
        rope_(rope),
        qkv_(qkv),
        mixed_(mixed),
        buffers_(buffers),
        simd_(simd),
        window_(sliding ? arch.sliding_window : 0),
        value_pad_(padded_values(arch)),
        q_step_(query_width(arch) / arch.heads),
        q_width_(query_width(arch)) {}

  /// Bias, norms and rotation of one panel of rows, then its keys and values into the buffers.
  void prepare(const RowBlock& block) const {
    const Rows rows{qkv_.row(block.first_row), qkv_.stride()};
    if (!weights_.qkv_bias.empty()) {
      CORTIQ_SIMD_DISPATCH(simd_, add_bias, rows, weights_.qkv_bias.data(), block.rows,
                           qkv_.cols());
    }
    for (std::int64_t head = 0; head < arch_.heads + arch_.kv_heads; ++head) {
      const Rows x{rows.data + column(head), rows.stride};
      const std::vector<float>& norm = head < arch_.heads ? weights_.q_norm : weights_.k_norm;
      if (!arch_.qk_norm_after_rope) norm_head(x, block.rows, norm);
      const std::int64_t at = block.position * rope_.half;
      CORTIQ_SIMD_DISPATCH(simd_, rotate, x, block.rows, rope_.half, rope_.cosine.data() + at,
                           rope_.sine.data() + at);
      if (arch_.qk_norm_after_rope) norm_head(x, block.rows, norm);
    }
    for (std::int64_t head = 0; head < arch_.kv_heads; ++head) {
      pack_keys(block, head);
      pack_values(block, head);
    }
  }

  /// One head, one block of at most kQueryRows queries.
  void run(const RowBlock& block, std::int64_t head) const {
    std::vector<float> scratch(
        static_cast<std::size_t>(attention_scratch_floats(arch_.head_dim, value_pad_)));
    const std::int64_t kv_head = head * arch_.kv_heads / arch_.heads;
    AttentionTile tile{};
    tile.q = qkv_.row(block.first_row) + head * q_step_;
    tile.q_stride = qkv_.stride();
    tile.rows = block.rows;
    tile.first_query = block.position;
    tile.keys = keys(block, kv_head, 0);
    tile.values = values(block, kv_head, 0);
    tile.head_dim = arch_.head_dim;
    tile.v_dim = arch_.v_head_dim;
    tile.value_pad = value_pad_;
    tile.scale = static_cast<float>(arch_.attention_scale);
    tile.softcap = static_cast<float>(arch_.attention_softcap.value_or(0.0));
    tile.window = window_;
    tile.sink = weights_.sinks.empty() ? -std::numeric_limits<float>::infinity()
                                       : weights_.sinks[static_cast<std::size_t>(head)];
    tile.out = mixed_.row(block.first_row) + head * arch_.v_head_dim;
    tile.out_stride = mixed_.stride();
    tile.scratch = scratch.data();
    CORTIQ_SIMD_DISPATCH(simd_, attend, tile);
    if (!arch_.output_gate) return;
    const Rows out{tile.out, tile.out_stride};
    const ConstRows gate{tile.q + arch_.head_dim, tile.q_stride};
    CORTIQ_SIMD_DISPATCH(simd_, multiply_gate, Gate::kSigmoid, out, gate, block.rows,
                         arch_.v_head_dim);
  }

 private:
  /// First column of a head; the key heads follow the query heads and their gates.
  [[nodiscard]] std::int64_t column(std::int64_t head) const {
    return head < arch_.heads ? head * q_step_ : q_width_ + (head - arch_.heads) * arch_.head_dim;
  }

  void norm_head(Rows x, std::int64_t rows, const std::vector<float>& weight) const {
    if (weight.empty()) return;
    const ConstRows from{x.data, x.stride};
    CORTIQ_SIMD_DISPATCH(simd_, rms_norm, from, rows, arch_.head_dim, weight.data(), arch_.norm_eps,
                         x);
  }

  // Panels of a window lie together, one head after the other.
  [[nodiscard]] std::int64_t panel_index(const RowBlock& block, std::int64_t kv_head,
                                         std::int64_t panel) const {
    return block.panel * arch_.kv_heads + kv_head * block.panels + panel;
  }
  [[nodiscard]] float* keys(const RowBlock& block, std::int64_t kv_head, std::int64_t panel) const {
    return buffers_.keys.data() + panel_index(block, kv_head, panel) * kKeyPanel * arch_.head_dim;
  }
  [[nodiscard]] float* values(const RowBlock& block, std::int64_t kv_head,
                              std::int64_t panel) const {
    return buffers_.values.data() + panel_index(block, kv_head, panel) * kKeyPanel * value_pad_;
  }

  void pack_keys(const RowBlock& block, std::int64_t head) const {
    float* panel = keys(block, head, block.position / kKeyPanel);
    const float* from = qkv_.row(block.first_row) + column(arch_.heads + head);
    for (std::int64_t d = 0; d < arch_.head_dim; ++d) {
      float* to = panel + d * kKeyPanel;
      for (std::int64_t r = 0; r < block.rows; ++r) to[r] = from[r * qkv_.stride() + d];
      std::fill(to + block.rows, to + kKeyPanel, 0.0F);
    }
  }

  void pack_values(const RowBlock& block, std::int64_t head) const {
    float* panel = values(block, head, block.position / kKeyPanel);
    const std::int64_t first = column(arch_.heads + arch_.kv_heads) + head * arch_.v_head_dim;
    for (std::int64_t r = 0; r < kKeyPanel; ++r) {
      float* to = panel + r * value_pad_;
      std::int64_t copied = 0;
      if (r < block.rows) {
        copied = arch_.v_head_dim;
        std::copy_n(qkv_.row(block.first_row + r) + first, copied, to);
      }
      std::fill(to + copied, to + value_pad_, 0.0F);
    }
  }

  const Arch& arch_;
  const LayerWeights& weights_;
  const RopeTable& rope_;
  MatrixView<float> qkv_;
  MatrixView<float> mixed_;
  AttentionBuffers& buffers_;
  SimdLevel simd_;
  std::int64_t window_;
  std::int64_t value_pad_;
  std::int64_t q_step_;   // columns from one query head to the next
  std::int64_t q_width_;  // of all query heads
};

}  // namespace

std::uint64_t AttentionBuffers::bytes(const Arch& arch, std::int64_t rows) {
  return static_cast<std::uint64_t>((rows + kKeyPanel) * arch.kv_heads *
                                    (arch.head_dim + padded_values(arch))) *
         sizeof(float);
}

void attention(const Arch& arch, bool sliding, const LayerWeights& weights, const RopeTable& rope,
               std::span<const WindowRows> windows, MatrixView<float> qkv, MatrixView<float> mixed,
               AttentionBuffers& buffers, Pool& pool) {
  const std::vector<RowBlock> key_blocks = cut(windows, kKeyPanel);
  const std::vector<RowBlock> query_blocks = cut(windows, kQueryRows);
  const auto key_rows = static_cast<std::int64_t>(key_blocks.size()) * kKeyPanel * arch.kv_heads;
  // Only ever grown: clearing and refilling them would cost a pass over the memory for each batch.
  buffers.keys.resize(
      std::max(buffers.keys.size(), static_cast<std::size_t>(key_rows * arch.head_dim)));
  buffers.values.resize(
      std::max(buffers.values.size(), static_cast<std::size_t>(key_rows * padded_values(arch))));
  const Attention task(arch, sliding, weights, rope, qkv, mixed, buffers, pool.simd());
  pool.for_each(static_cast<std::int64_t>(key_blocks.size()),
                [&](std::int64_t i) { task.prepare(key_blocks[static_cast<std::size_t>(i)]); });
  pool.for_each(static_cast<std::int64_t>(query_blocks.size()) * arch.heads, [&](std::int64_t i) {
    task.run(query_blocks[static_cast<std::size_t>(i / arch.heads)], i % arch.heads);
  });
}

}  // namespace cortiq::model
