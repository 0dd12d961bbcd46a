#include <algorithm>
#include <numeric>

#include "cortiq/model/score.hpp"

namespace cortiq::model {

std::int64_t ScoredWindows::scored_tokens() const {
  std::int64_t total = 0;
  for (std::int64_t i = 0; i < windows.count(); ++i) {
    total +=
        std::max<std::int64_t>(0, windows.length(i) - first_scored[static_cast<std::size_t>(i)]);
  }
  return total;
}

ScoredWindows scored_windows(const std::vector<TokenId>& ids, std::int64_t window,
                             std::int64_t stride, TokenId bos) {
  if (window < 2 || stride < 1 || stride > window) {
    fail(ErrorKind::kUsage,
         "window {} and stride {}: a window of at least 2 tokens and a stride from 1 to the window "
         "is needed",
         window, stride);
  }
  ScoredWindows result;
  const auto total = static_cast<std::int64_t>(ids.size());
  std::vector<TokenId> tokens;
  for (std::int64_t first = 0; first + window <= total; first += stride) {
    tokens.clear();
    if (bos >= 0) tokens.push_back(bos);
    const auto begin = ids.begin() + first;
    tokens.insert(tokens.end(), begin, begin + window);
    result.windows.add(tokens);
    // With BOS in front all tokens of the first window have something before them.
    const std::int64_t known =
        first == 0 || stride == window ? (bos >= 0 ? 0 : 1) : window - stride;
    result.first_scored.push_back(known + (bos >= 0 ? 1 : 0));
  }
  return result;
}

}  // namespace cortiq::model
