// experts.hpp: the MLP of a layer with routed experts, over the rows of several batches at once, so
// that each expert is decoded once per call and multiplied with all rows that go to it. One expert
// is held at a time.
#pragma once

#include <cstdint>
#include <functional>
#include <memory>
#include <optional>
#include <span>

#include "cortiq/cmf/source.hpp"
#include "cortiq/model/arch.hpp"
#include "cortiq/model/layer_weights.hpp"
#include "cortiq/model/roles.hpp"
#include "cortiq/support/parallel.hpp"
#include "cortiq/support/view.hpp"
#include "routing.hpp"

namespace cortiq::model {

/// Rows that share one decoding of the experts: decoding costs less than 1/100 of their products
/// already for a few hundred rows per expert, and 8192 rows of a wide model are 2 x 256 MiB.
inline constexpr std::int64_t kExpertRows = 8192;

class ExpertLayer {
 public:
  struct Callbacks {
    /// Rows that an expert (-1: none in particular) is about to read.
    std::function<void(Role, std::int64_t expert, ConstMatrixView<float>)> observe;
    /// After each expert, with the share of the work that is done.
    std::function<void(double share)> progress;
  };
  /// Keeps references. @param rows  most rows of one call   @param panel_rows  rows of one product
  ExpertLayer(const Arch& arch, const cmf::Source& source, std::int64_t layer,
              const LayerWeights& weights, std::int64_t rows, std::int64_t panel_rows, Pool& pool);
  /// Working memory, decoded expert included.
  [[nodiscard]] static std::uint64_t bytes(const Arch& arch, std::int64_t rows,
                                           std::int64_t panel_rows);

  /// states += MLP of the normed states. The outputs of the experts are added in ascending order,
  /// the shared expert comes last. Returns the first row that is then not finite, if any.
  [[nodiscard]] std::optional<std::int64_t> run(MatrixView<float> states,
                                                const Callbacks& callbacks);

 private:
  void route(ConstMatrixView<float> normed, const Callbacks& callbacks);
  void run_expert(std::int64_t expert, ConstMatrixView<float> normed, MatrixView<float> sum,
                  const Callbacks& callbacks);
  void run_shared(ConstMatrixView<float> normed, MatrixView<float> sum, const Callbacks& callbacks);
  /// down(act(gate(x)) * up(x)) into the output panel.
  [[nodiscard]] ConstMatrixView<float> mlp(const LinearStack& gate_up, const LinearStack& down,
                                           ConstMatrixView<float> x, Role role, std::int64_t expert,
                                           const Callbacks& callbacks);

  const Arch& arch_;
  const cmf::Source& source_;
  std::int64_t layer_;
  const LayerWeights& weights_;
  std::int64_t panel_rows_;
  Pool& pool_;
  ExpertWeights expert_;
  Routing routing_;
  std::vector<float> logits_;  // [rows, router rows]
  std::unique_ptr<float[]> normed_;
  std::unique_ptr<float[]> sum_;
  std::unique_ptr<float[]> input_;    // panel
  std::unique_ptr<float[]> gate_up_;  // panel
  std::unique_ptr<float[]> output_;   // panel
};

}  // namespace cortiq::model
