// batches.hpp: consecutive windows grouped to about one number of rows per matrix product.
#pragma once

#include <cstdint>
#include <vector>

#include "cortiq/model/windows.hpp"

namespace cortiq::model {

struct Batch {
  std::int64_t first_window = 0;
  std::int64_t first_token = 0;
  std::int64_t tokens = 0;
  std::vector<std::int64_t> lengths;  ///< of its windows
};

/// A window is never cut: one longer than batch_tokens is a batch of its own. Empty windows belong
/// to the batch around them.
[[nodiscard]] std::vector<Batch> make_batches(const Windows& windows, std::int64_t batch_tokens);

/// Tokens of the longest window, and of the largest batch; 0 where there is none.
[[nodiscard]] std::int64_t longest(const Windows& windows);
[[nodiscard]] std::int64_t most_tokens(const std::vector<Batch>& batches);

}  // namespace cortiq::model
