#include "delta_net.hpp"

#include <algorithm>
#include <cmath>
#include <vector>

#include "cortiq/support/cpu.hpp"
#include "kernels.hpp"

namespace cortiq::model {
namespace {

constexpr std::int64_t kGrainRows = 32;
/// Channels of one convolution task.
constexpr std::int64_t kConvChannels = 128;

class Net {
 public:
  Net(const Arch& arch, const DeltaWeights& weights, MatrixView<float> projected,
      MatrixView<float> mixed, SimdLevel simd)
      : net_(*arch.delta_net),
        eps_(arch.norm_eps),
        weights_(weights),
        projected_(projected),
        mixed_(mixed),
        simd_(simd) {}

  [[nodiscard]] std::int64_t channel_blocks() const {
    return (net_.conv_width() + kConvChannels - 1) / kConvChannels;
  }
  [[nodiscard]] std::int64_t column_blocks() const {
    return (net_.value_dim + kDeltaCols - 1) / kDeltaCols;
  }

  void convolve(const WindowRows& window, std::int64_t block) const {
    const std::int64_t first = block * kConvChannels;
    const Rows x{projected_.row(window.first_row) + first, projected_.stride()};
    CORTIQ_SIMD_DISPATCH(simd_, causal_conv, x, window.rows,
                         std::min(kConvChannels, net_.conv_width() - first),
                         weights_.taps.data() + first, net_.conv_width(), net_.taps);
  }

  /// Unit queries and keys; a becomes the decay of the state, b the rate beta.
  void prepare(std::int64_t begin, std::int64_t end) const {
    float* rows = projected_.row(begin);
    const float scale = static_cast<float>(1.0 / std::sqrt(static_cast<double>(net_.key_dim)));
    for (std::int64_t head = 0; head < 2 * net_.key_heads; ++head) {
      const Rows x{rows + head * net_.key_dim, projected_.stride()};
      CORTIQ_SIMD_DISPATCH(simd_, unit_norm, x, end - begin, net_.key_dim,
                           head < net_.key_heads ? scale : 1.0F);
    }
    for (std::int64_t r = begin; r < end; ++r) {
      float* a = projected_.row(r) + gate_column();
      float* b = a + net_.value_heads;
      for (std::int64_t head = 0; head < net_.value_heads; ++head) {
        a[head] = decay(a[head], static_cast<std::size_t>(head));
        b[head] = static_cast<float>(1.0 / (1.0 + std::exp(-static_cast<double>(b[head]))));
      }
    }
  }

  /// Some columns of the state of one value head, through one window.
  void recur(const WindowRows& window, std::int64_t head, std::int64_t block) const {
    std::vector<float> state(static_cast<std::size_t>(net_.key_dim * kDeltaCols));
    const float* row = projected_.row(window.first_row);
    const std::int64_t key_head = head / (net_.value_heads / net_.key_heads);
    const std::int64_t first = head * net_.value_dim + block * kDeltaCols;
    DeltaTile tile{};
    tile.q = row + key_head * net_.key_dim;
    tile.k = tile.q + net_.key_width();
    tile.v = row + 2 * net_.key_width() + first;
    tile.decay = row + gate_column() + head;
    tile.beta = tile.decay + net_.value_heads;
    tile.stride = projected_.stride();
    tile.rows = window.rows;
    tile.key_dim = net_.key_dim;
    tile.cols = std::min(kDeltaCols, net_.value_dim - block * kDeltaCols);
    tile.out = mixed_.row(window.first_row) + first;
    tile.out_stride = mixed_.stride();
    tile.state = state.data();
    CORTIQ_SIMD_DISPATCH(simd_, delta_rule, tile);
  }

  /// Norm of each head's output, times silu(z).
  void finish(std::int64_t begin, std::int64_t end) const {
    for (std::int64_t head = 0; head < net_.value_heads; ++head) {
      const std::int64_t first = head * net_.value_dim;
      const Rows out{mixed_.row(begin) + first, mixed_.stride()};
      const ConstRows from{out.data, out.stride};
      const ConstRows z{projected_.row(begin) + net_.conv_width() + first, projected_.stride()};
      CORTIQ_SIMD_DISPATCH(simd_, rms_norm, from, end - begin, net_.value_dim, weights_.norm.data(),
                           eps_, out);
      CORTIQ_SIMD_DISPATCH(simd_, multiply_gate, Gate::kSilu, out, z, end - begin, net_.value_dim);
    }
  }

 private:
  [[nodiscard]] std::int64_t gate_column() const { return net_.conv_width() + net_.value_width(); }

  /// exp(-exp(A_log) * softplus(a + dt_bias))
  [[nodiscard]] float decay(float a, std::size_t head) const {
    const double x = static_cast<double>(a) + static_cast<double>(weights_.time_bias[head]);
    const double softplus = x > 20 ? x : std::log1p(std::exp(x));
    return static_cast<float>(std::exp(-static_cast<double>(weights_.decay[head]) * softplus));
  }

  const DeltaNet& net_;
  double eps_;
  const DeltaWeights& weights_;
  MatrixView<float> projected_;
  MatrixView<float> mixed_;
  SimdLevel simd_;
};

}  // namespace

void delta_net(const Arch& arch, const DeltaWeights& weights, std::span<const WindowRows> windows,
               MatrixView<float> projected, MatrixView<float> mixed, Pool& pool) {
  const Net net(arch, weights, projected, mixed, pool.simd());
  const auto count = static_cast<std::int64_t>(windows.size());
  const auto window = [&](std::int64_t i) { return windows[static_cast<std::size_t>(i)]; };
  const std::int64_t channels = net.channel_blocks();
  pool.for_each(count * channels,
                [&](std::int64_t i) { net.convolve(window(i / channels), i % channels); });
  pool.for_ranges(projected.rows(), kGrainRows,
                  [&](std::int64_t begin, std::int64_t end) { net.prepare(begin, end); });
  const std::int64_t columns = net.column_blocks();
  const std::int64_t tasks = arch.delta_net->value_heads * columns;
  pool.for_each(count * tasks, [&](std::int64_t i) {
    net.recur(window(i / tasks), i % tasks / columns, i % columns);
  });
  pool.for_ranges(projected.rows(), kGrainRows,
                  [&](std::int64_t begin, std::int64_t end) { net.finish(begin, end); });
}

}  // namespace cortiq::model
