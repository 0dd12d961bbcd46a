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

/// What the linear attention of a layer has beside its projections.
struct DeltaWeights {
  std::vector<float> taps;       ///< [taps, channels], oldest first
  std::vector<float> decay;      ///< exp(A_log) per value head
  std::vector<float> time_bias;  ///< per value head
  std::vector<float> norm;       ///< [value_dim]; always plain x*w
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
  std::vector<float> sinks;     ///< one more logit per query head, without a value
  DeltaWeights delta;           ///< linear attention only
  LinearStack in;               ///< q, k, v; linear attention: qkv, z, a, b
  LinearStack mix_out;          ///< o, or the output projection of linear attention
  LinearStack mlp;              ///< gate, up of the MLP, or of the shared expert; may be empty then
  LinearStack down;
  LinearStack router;              ///< [experts (+ 1 for the shared expert's gate), hidden]
  std::vector<float> expert_bias;  ///< added to the scores for the choice only
};

/// Decodes layer `layer` without its routed experts and releases the pages of its payloads. Errors
/// name the tensor.
[[nodiscard]] LayerWeights load_layer(const Arch& arch, const cmf::Source& source,
                                      std::int64_t layer, Pool& pool);

/// f32 bytes of what load_layer gives.
[[nodiscard]] std::uint64_t layer_weight_bytes(const cmf::Source& source, std::int64_t layer);

struct ExpertWeights {
  LinearStack mlp;  ///< gate, up
  LinearStack down;
};
/// Decodes one routed expert into `out`, whose memory is reused.
void load_expert(const cmf::Source& source, std::int64_t layer, std::int64_t expert,
                 ExpertWeights& out, Pool& pool);

/// Decodes every matrix of the stack again, from a source whose tensors have changed.
void reload_stack(const cmf::Source& source, LinearStack& stack, Pool& pool);

/// A vector tensor (norm, bias) as f32, `offset` added to every value.
[[nodiscard]] std::vector<float> load_vector(const cmf::Source& source, std::string_view name,
                                             float offset);

/// Norm weights in the sense of LayerWeights.
[[nodiscard]] std::vector<float> load_norm(const Arch& arch, const cmf::Source& source,
                                           std::string_view name);

}  // namespace cortiq::model
