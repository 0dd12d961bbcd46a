// score_chunk.hpp: windows that are scored together, and the head's input at the positions that
// predict scored tokens.
#pragma once

#include <cstdint>
#include <functional>
#include <vector>

#include "cortiq/model/score.hpp"

namespace cortiq::model {

/// A run of windows whose hidden states are held at once.
struct ScoreChunk {
  Windows windows;
  std::vector<std::int64_t> positions;  ///< token whose logits predict the scored one
  std::vector<TokenId> targets;         ///< the scored token
};
/// Chunks of whole windows, cut so that the hidden states of `hidden` values per token stay small.
[[nodiscard]] std::vector<ScoreChunk> cut_chunks(const ScoredWindows& scored, std::int64_t hidden);

/// Reports progress in tokens over `passes` equal passes through all of them (layers and heads).
class ScoreProgress {
 public:
  using Callback = std::function<void(std::int64_t done, std::int64_t total)>;
  ScoreProgress(const Callback& callback, std::int64_t tokens, std::int64_t passes)
      : callback_(callback), tokens_(tokens), passes_(passes) {}
  /// `tokens` went through one pass.
  void add(std::int64_t tokens);

 private:
  const Callback& callback_;
  std::int64_t tokens_;
  std::int64_t passes_;
  std::int64_t done_ = 0;  // tokens * passes
};

/// [scored, hidden] normed states at chunk.positions, after all layers.
[[nodiscard]] std::vector<float> scored_states(const Forward& forward, const ScoreChunk& chunk,
                                               ScoreProgress& progress);

}  // namespace cortiq::model
