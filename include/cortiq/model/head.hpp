// head.hpp: final norm and output head, decoded a block of vocabulary rows at a time.
#pragma once

#include <cstdint>
#include <memory>

#include "cortiq/cmf/source.hpp"
#include "cortiq/model/arch.hpp"
#include "cortiq/support/parallel.hpp"
#include "cortiq/support/view.hpp"

namespace cortiq::model {

class Head {
 public:
  /// lm_head.weight, or the embedding where that is missing. Keeps references to all three.
  Head(const Arch& arch, const cmf::Source& source, Pool& pool);
  ~Head();
  Head(const Head&) = delete;
  Head& operator=(const Head&) = delete;

  /// Rows of the vocabulary that are worth decoding at once, at most arch.vocab.
  [[nodiscard]] std::int64_t block_rows() const;
  /// Final norm of hidden states.
  void norm(ConstMatrixView<float> states, MatrixView<float> out) const;
  /// Weight rows [first, first + out.rows()) as f32.
  void decode(std::int64_t first, MatrixView<float> out) const;
  /// logits [rows, block.rows()] of normed states against decoded weight rows; multiplier and soft
  /// cap applied.
  void logits(ConstMatrixView<float> normed, ConstMatrixView<float> block,
              MatrixView<float> out) const;

 private:
  struct State;
  std::unique_ptr<State> state_;
};

}  // namespace cortiq::model
