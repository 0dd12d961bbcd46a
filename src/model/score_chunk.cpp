#include "score_chunk.hpp"

#include <algorithm>

namespace cortiq::model {
namespace {

/// Hidden states of a chunk stay near this size; fewer tokens would decode the weights too often.
constexpr std::int64_t kStateBytes = std::int64_t{128} << 20;
constexpr std::int64_t kLeastTokens = 8192;

}  // namespace

std::vector<ScoreChunk> cut_chunks(const ScoredWindows& scored, std::int64_t hidden) {
  const std::int64_t most =
      std::max(kLeastTokens, kStateBytes / static_cast<std::int64_t>(sizeof(float)) / hidden);
  std::vector<ScoreChunk> chunks;
  for (std::int64_t i = 0; i < scored.windows.count(); ++i) {
    const std::span<const TokenId> ids = scored.windows.window(i);
    const auto length = static_cast<std::int64_t>(ids.size());
    if (chunks.empty() || chunks.back().windows.tokens() + length > most) chunks.emplace_back();
    ScoreChunk& chunk = chunks.back();
    const std::int64_t base = chunk.windows.tokens();
    chunk.windows.add(ids);
    for (std::int64_t t =
             std::max<std::int64_t>(1, scored.first_scored[static_cast<std::size_t>(i)]);
         t < length; ++t) {
      chunk.positions.push_back(base + t - 1);
      chunk.targets.push_back(ids[static_cast<std::size_t>(t)]);
    }
  }
  return chunks;
}

void ScoreProgress::add(std::int64_t tokens) {
  done_ += tokens;
  if (callback_) callback_(done_ / passes_, tokens_);
}

std::vector<float> scored_states(const Forward& forward, const ScoreChunk& chunk,
                                 ScoreProgress& progress) {
  HiddenStates states = forward.embed(chunk.windows);
  for (std::int64_t layer = 0; layer < forward.arch().layers; ++layer) {
    std::int64_t before = 0;
    forward.run_layer(layer, chunk.windows, states, nullptr, [&](std::int64_t done) {
      progress.add(done - before);
      before = done;
    });
  }
  const std::int64_t hidden = forward.arch().hidden;
  const auto rows = static_cast<std::int64_t>(chunk.positions.size());
  std::vector<float> normed(static_cast<std::size_t>(rows * hidden));
  for (std::int64_t i = 0; i < rows; ++i) {
    std::copy_n(states.view().row(chunk.positions[static_cast<std::size_t>(i)]), hidden,
                normed.data() + i * hidden);
  }
  const MatrixView<float> view(normed.data(), rows, hidden);
  forward.head().norm(view, view);
  return normed;
}

}  // namespace cortiq::model
