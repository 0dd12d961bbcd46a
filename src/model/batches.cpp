#include "batches.hpp"

#include <algorithm>

namespace cortiq::model {

std::vector<Batch> make_batches(const Windows& windows, std::int64_t batch_tokens) {
  std::vector<Batch> batches;
  for (std::int64_t i = 0; i < windows.count(); ++i) {
    const std::int64_t length = windows.length(i);
    if (batches.empty() ||
        (batches.back().tokens > 0 && batches.back().tokens + length > batch_tokens)) {
      batches.push_back({i, windows.offsets[static_cast<std::size_t>(i)], 0, {}});
    }
    batches.back().tokens += length;
    batches.back().lengths.push_back(length);
  }
  return batches;
}

std::int64_t longest(const Windows& windows) {
  std::int64_t most = 0;
  for (std::int64_t i = 0; i < windows.count(); ++i) most = std::max(most, windows.length(i));
  return most;
}

std::int64_t most_tokens(const std::vector<Batch>& batches) {
  std::int64_t most = 0;
  for (const Batch& batch : batches) most = std::max(most, batch.tokens);
  return most;
}

}  // namespace cortiq::model
