// layer_runner.hpp: one layer over one batch of windows, in stages that a caller may interleave
// with replacing weights. Stage by stage: attention_input, mix, add_mixer, mlp_input, activate,
// add_mlp. Each reads what the one before wrote. Layers with routed experts have the stages up to
// add_mixer only. Every stage gives the same bits for every Pool
// size and for every grouping of windows into batches.
#pragma once

#include <cstdint>
#include <memory>
#include <optional>
#include <span>

#include "cortiq/model/arch.hpp"
#include "cortiq/model/layer_weights.hpp"
#include "cortiq/support/parallel.hpp"
#include "cortiq/support/view.hpp"

namespace cortiq::model {

/// Working memory of the stages, for batches of up to `rows` rows. Reusable for all layers of a
/// model.
class LayerScratch {
 public:
  LayerScratch(const Arch& arch, std::int64_t rows);
  ~LayerScratch();
  LayerScratch(LayerScratch&&) noexcept;
  /// What becomes resident. @param with_mlp  the stages behind add_mixer run too
  [[nodiscard]] static std::uint64_t bytes(const Arch& arch, std::int64_t rows,
                                           bool with_mlp = true);

 private:
  friend class LayerRunner;
  struct State;
  std::unique_ptr<State> state_;
};

class LayerRunner {
 public:
  /// Keeps references to all of them; weights may change between stages. Windows of up to
  /// `positions` tokens.
  LayerRunner(const Arch& arch, std::int64_t layer, const LayerWeights& weights,
              std::int64_t positions, Pool& pool);
  ~LayerRunner();

  /// Names the windows of the batch by their lengths; their rows follow one another. Resets the
  /// stages.
  void begin(std::span<const std::int64_t> window_lengths, LayerScratch& scratch);

  // Views into the scratch, valid until the next stage that the comment names. `states` [rows,
  // hidden] is the residual stream of the batch.
  /// Normed hidden states, input of q, k, v or of the linear attention [rows, hidden]; valid until
  /// mlp_input.
  [[nodiscard]] ConstMatrixView<float> attention_input(ConstMatrixView<float> states);
  /// Mixer output in front of its projection [rows, mixer_width]; valid until begin.
  [[nodiscard]] ConstMatrixView<float> mix();
  /// states += projected mixer output; the second form takes what mix() gave from the caller, who
  /// kept it.
  void add_mixer(MatrixView<float> states);
  void add_mixer(MatrixView<float> states, ConstMatrixView<float> mixed);
  /// Normed hidden states, input of gate and up [rows, hidden]; valid until begin.
  [[nodiscard]] ConstMatrixView<float> mlp_input(ConstMatrixView<float> states);
  /// act(gate)*up [rows, width]; valid until begin.
  [[nodiscard]] ConstMatrixView<float> activate();
  /// states += down projection. Returns the first row that is then not finite, if any.
  /// The second form takes what activate() gave from the caller, who kept it.
  [[nodiscard]] std::optional<std::int64_t> add_mlp(MatrixView<float> states);
  [[nodiscard]] std::optional<std::int64_t> add_mlp(MatrixView<float> states,
                                                    ConstMatrixView<float> activated);

 private:
  struct State;
  std::unique_ptr<State> state_;
};

}  // namespace cortiq::model
