// stand_in.hpp: an encoder that needs no tokenizer file: one token per word, its id is the length
// of the word in bytes.
#pragma once

#include <string_view>
#include <vector>

#include "cortiq/model/tokenizer.hpp"

namespace cortiq::test {

inline std::vector<model::TokenId> encode_words(std::string_view text) {
  std::vector<model::TokenId> ids;
  model::TokenId length = 0;
  for (const char c : text) {
    const bool space = c == ' ' || (c >= '\t' && c <= '\r');
    if (!space) ++length;
    if (space && length > 0) {
      ids.push_back(length);
      length = 0;
    }
  }
  if (length > 0) ids.push_back(length);
  return ids;
}

}  // namespace cortiq::test
