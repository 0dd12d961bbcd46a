// layer_stream.hpp: one layer over all windows of one stream of hidden states, stage by stage, so
// that all windows pass one stage before any reaches the next. Batches are those of Forward; the
// stages give the same bits as Forward::run_layer with the same weights. A stage whose result the
// caller wants to continue from later has to be kept by the caller.
#pragma once

#include <cstdint>
#include <memory>

#include "cortiq/cmf/source.hpp"
#include "cortiq/model/arch.hpp"
#include "cortiq/model/layer_weights.hpp"
#include "cortiq/model/windows.hpp"
#include "cortiq/support/parallel.hpp"
#include "cortiq/support/view.hpp"

namespace cortiq::model {

class LayerStream {
 public:
  /// The hidden states [tokens, hidden] of all windows, changed in place.
  struct Stream {
    const Arch& arch;
    const cmf::Source& source;
    const Windows& windows;
    MatrixView<float> states;
    std::int64_t batch_tokens = 2048;
  };
  /// Loads the weights of `layer`. Keeps references.
  LayerStream(const Stream& stream, std::int64_t layer, Pool& pool);
  ~LayerStream();

  /// What the stages compute with; may be changed between them.
  [[nodiscard]] LayerWeights& weights();
  [[nodiscard]] std::int64_t batches() const;
  [[nodiscard]] std::int64_t first_token(std::int64_t batch) const;
  /// The hidden states of a batch [rows, hidden].
  [[nodiscard]] MatrixView<float> rows(std::int64_t batch) const;

  // Views are valid until the next call. Each call runs what its stage needs of this batch.
  [[nodiscard]] ConstMatrixView<float> attention_input(std::int64_t batch);
  [[nodiscard]] ConstMatrixView<float> mix(std::int64_t batch);
  /// @param mixed  what mix(batch) gave
  void add_mixer(std::int64_t batch, ConstMatrixView<float> mixed);
  /// Dense MLP only. What mlp_input gives is read from the states behind the mixer.
  [[nodiscard]] ConstMatrixView<float> mlp_input(std::int64_t batch);
  [[nodiscard]] ConstMatrixView<float> activate(std::int64_t batch);
  /// @param activated  what activate(batch) gave. A state that is then not finite: Error{kNumeric}
  /// naming layer and window.
  void add_mlp(std::int64_t batch, ConstMatrixView<float> activated);

  /// Bytes beside the states, for memory plans: f32 weights without experts, scratch.
  [[nodiscard]] static std::uint64_t bytes(const Arch& arch, const cmf::Source& source,
                                           std::int64_t layer, std::int64_t batch_tokens);

 private:
  struct State;
  std::unique_ptr<State> state_;
};

/// Error{kNumeric} for a hidden state behind `layer` that is not finite, at row `token`.
[[noreturn]] void fail_state_not_finite(const cmf::Source& source, const Windows& windows,
                                        std::int64_t layer, std::int64_t token);

}  // namespace cortiq::model
