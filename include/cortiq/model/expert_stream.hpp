// expert_stream.hpp: the MLP of a layer with routed experts over all rows of one stream of hidden
// states, taken apart so that a caller may stop in front of every matrix and replace it: route,
// then for each expert input, activate, add; the shared expert likewise; finish. The states change
// in finish only. Same bits for every Pool size.
#pragma once

#include <cstdint>
#include <filesystem>
#include <functional>
#include <memory>
#include <optional>
#include <span>
#include <vector>

#include "cortiq/model/arch.hpp"
#include "cortiq/model/layer_weights.hpp"
#include "cortiq/support/parallel.hpp"
#include "cortiq/support/view.hpp"

namespace cortiq::model {

class ExpertStream {
 public:
  /// Rows that callers should hand over at a time.
  static constexpr std::int64_t kPanelRows = 2048;

  struct Stream {
    const Arch& arch;
    const LayerWeights& weights;  ///< norms, router and shared expert are read when needed
    MatrixView<float> states;     ///< [tokens, hidden] behind the mixer
    std::optional<std::filesystem::path> spill_folder;  ///< for the sum of the outputs
    /// Called whenever route or finish are done with a panel of rows; may be empty.
    std::function<void()> after_panel = {};
  };
  ExpertStream(const Stream& stream, std::int64_t layer, Pool& pool);
  ~ExpertStream();

  /// Normed states of rows [first, first + out.rows()), or of the named rows.
  void input(std::int64_t first, MatrixView<float> out) const;
  void input(std::span<const std::int32_t> rows, MatrixView<float> out) const;

  /// Chooses the experts of all rows with the router as it is now.
  void route();
  /// The rows that go to an expert, ascending; after route().
  [[nodiscard]] std::span<const std::int32_t> rows(std::int64_t expert) const;

  /// act(gate)*up of x; the view is valid until the next call of this stream's activate.
  /// @param gate_up  gate above up, of an expert or of the shared expert
  [[nodiscard]] ConstMatrixView<float> activate(const LinearStack& gate_up,
                                                ConstMatrixView<float> x);
  /// Adds down(activated), times the weight of each row, for rows [first, first +
  /// activated.rows()) of rows(expert).
  void add(std::int64_t expert, std::size_t first, const LinearStack& down,
           ConstMatrixView<float> activated);
  /// The same of the shared expert, for rows [first, first + activated.rows()) of the states.
  void add_shared(std::int64_t first, const LinearStack& down, ConstMatrixView<float> activated);
  /// What lies on disk stops counting as memory.
  void release() const noexcept;
  /// states += sum. Returns the first row that is then not finite, if any.
  [[nodiscard]] std::optional<std::int64_t> finish();

  /// Bytes beside states and the sum of the outputs [tokens, hidden].
  [[nodiscard]] static std::uint64_t scratch_bytes(const Arch& arch, std::int64_t tokens);

 private:
  struct State;
  std::unique_ptr<State> state_;
};

}  // namespace cortiq::model
