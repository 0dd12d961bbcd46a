// windows.hpp: token windows, each a fresh context that starts at position 0.
#pragma once

#include <cstdint>
#include <span>
#include <vector>

#include "cortiq/model/tokenizer.hpp"

namespace cortiq::model {

/// Windows laid end to end in one array.
struct Windows {
  std::vector<TokenId> ids;
  std::vector<std::int64_t> offsets{0};  ///< window i is ids[offsets[i], offsets[i+1])

  [[nodiscard]] std::int64_t count() const { return static_cast<std::int64_t>(offsets.size()) - 1; }
  [[nodiscard]] std::int64_t tokens() const { return static_cast<std::int64_t>(ids.size()); }
  [[nodiscard]] std::int64_t length(std::int64_t i) const {
    return offsets[static_cast<std::size_t>(i) + 1] - offsets[static_cast<std::size_t>(i)];
  }
  [[nodiscard]] std::span<const TokenId> window(std::int64_t i) const {
    return std::span(ids).subspan(static_cast<std::size_t>(offsets[static_cast<std::size_t>(i)]),
                                  static_cast<std::size_t>(length(i)));
  }
  void add(std::span<const TokenId> window) {
    ids.insert(ids.end(), window.begin(), window.end());
    offsets.push_back(static_cast<std::int64_t>(ids.size()));
  }
};

}  // namespace cortiq::model
