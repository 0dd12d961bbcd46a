// layer_weights.hpp: the weights of one layer in f32, decoded from any storage type, and
// replaceable one by one.
#pragma once

#include <cstdint>
#include <string>
#include <string_view>
#include <vector>

#include "cortiq/cmf/source.hpp"
#include "cortiq/model/arch.hpp"
#include "cortiq/support/parallel.hpp"
#include "cortiq/support/view.hpp"

namespace cortiq::model {

/// Matrices that read the same input, one above the other, so that one product serves them all.
struct LinearStack {
  struct Part {
    std::string name;  ///< tensor name
    std::int64_t first_row = 0;
    std::int64_t rows = 0;
  };
  std::int64_t rows = 0;  ///< output width of all parts together
  std::int64_t cols = 0;  ///< input width
  std::vector<float> values;
  std::vector<Part> parts;

  [[nodiscard]] MatrixView<float> view() { return {values.data(), rows, cols}; }
  [[nodiscard]] ConstMatrixView<float> view() const { return {values.data(), rows, cols}; }
  /// One matrix, writable: what a caller stores there is what the layer computes with from then on.
  [[nodiscard]] MatrixView<float> part(std::size_t index) {
    return view().block(parts[index].first_row, 0, parts[index].rows, cols);
  }
};

/// Norm weights hold what the normed value is multiplied with: w or 1+w (arch.norm_style). Absent
/// ones are empty.
struct LayerWeights {
  std::vector<float> input_norm;
  std::vector<float>
      post_attention_norm;  ///< in front of the MLP; with sandwich norms on the mixer's output
  std::vector<float> pre_mlp_norm;   ///< sandwich norms only
  std::vector<float> post_mlp_norm;  ///< sandwich norms only
  std::vector<float> q_norm;
  std::vector<float> k_norm;
  std::vector<float> qkv_bias;  ///< [q; k; v]
  LinearStack in;               ///< q, k, v
  LinearStack mix_out;          ///< o
  LinearStack mlp;              ///< gate, up
  LinearStack down;
};

/// Decodes layer `layer` and releases the pages of its payloads. Errors name the tensor.
[[nodiscard]] LayerWeights load_layer(const Arch& arch, const cmf::Source& source,
                                      std::int64_t layer, Pool& pool);

/// A vector tensor (norm, bias) as f32, `offset` added to every value.
[[nodiscard]] std::vector<float> load_vector(const cmf::Source& source, std::string_view name,
                                             float offset);

/// Norm weights in the sense of LayerWeights.
[[nodiscard]] std::vector<float> load_norm(const Arch& arch, const cmf::Source& source,
                                           std::string_view name);

}  // namespace cortiq::model
