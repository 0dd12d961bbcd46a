// routing.hpp: which experts a row goes to, and with which weights (cmf.md section 5.3).
#pragma once

#include <cstdint>
#include <span>
#include <vector>

#include "cortiq/model/arch.hpp"
#include "cortiq/support/parallel.hpp"
#include "cortiq/support/view.hpp"

namespace cortiq::model {

/// The rows of each expert, ascending, and the weight of its output in each of them.
class Routing {
 public:
  /// @param logits  [rows, experts]   @param bias  per expert, added to the scores for the choice
  /// only; may be empty. Equal scores: the lower expert. A row depends on nothing but its logits.
  void choose(const Experts& experts, ConstMatrixView<float> logits, std::span<const float> bias,
              Pool& pool);
  [[nodiscard]] std::span<const std::int32_t> rows(std::int64_t expert) const;
  [[nodiscard]] std::span<const float> weights(std::int64_t expert) const;

 private:
  std::vector<std::int32_t> choice_;  // [rows, top_k] experts
  std::vector<float> share_;          // [rows, top_k] their weights
  std::vector<std::size_t> first_;    // [experts + 1] where the rows of each expert start
  std::vector<std::int32_t> rows_;
  std::vector<float> weights_;
};

}  // namespace cortiq::model
