// added_tokens.hpp: the "added_tokens" of a tokenizer.json: texts that become one token wherever
// they stand. Of the tokens that match at the earliest place the longest is taken (calibration.md
// section 2.3, step 1).
#pragma once

#include <algorithm>
#include <array>
#include <cstdint>
#include <string>
#include <string_view>
#include <vector>

#include "cortiq/model/tokenizer.hpp"

namespace cortiq::model::tokenizer {

struct AddedToken {
  TokenId id = 0;
  std::string content;
  bool single_word = false;  ///< only where no letter, digit or underscore touches it
  bool lstrip = false;       ///< swallows the white space before it
  bool rstrip = false;       ///< swallows the white space behind it
  bool normalized = false;   ///< looked for behind the normalizer, else before it
  bool special = false;
};

/// Immutable set of tokens. Search is one pass: a byte that begins no token costs a table look-up,
/// any other a walk down the trie, at most as long as the longest token.
class AddedTokens {
 public:
  AddedTokens();
  /// The content must not be empty. A content that is already there keeps its first id.
  void insert(AddedToken token);
  [[nodiscard]] bool empty() const { return tokens_.empty(); }

  /// Calls text(stretch, offset) for non-empty stretches between tokens and token(id) for tokens,
  /// in order.
  template <typename OnText, typename OnToken>
  void split(std::string_view input, OnText&& on_text, OnToken&& on_token) const;

 private:
  struct Node {
    unsigned char byte;
    std::int32_t child;
    std::int32_t sibling;
    std::int32_t token;
  };
  struct Found {
    std::size_t begin;
    std::size_t end;
    const AddedToken* token;
  };
  [[nodiscard]] std::int32_t child_of(std::int32_t node, unsigned char byte) const;
  /// The next match at or behind `from`; token is null where there is none.
  [[nodiscard]] Found find(std::string_view input, std::size_t from) const;
  [[nodiscard]] static bool stands_alone(std::string_view input, const Found& found);

  std::vector<AddedToken> tokens_;
  std::vector<Node> nodes_;
  std::array<std::int32_t, 256> first_{};  // node of a first byte, or -1
};

/// Bytes of white space around a match that a token swallows.
[[nodiscard]] std::size_t swallowed_before(std::string_view text, const AddedToken& token);
[[nodiscard]] std::size_t swallowed_behind(std::string_view text, const AddedToken& token);

template <typename OnText, typename OnToken>
void AddedTokens::split(std::string_view input, OnText&& on_text, OnToken&& on_token) const {
  std::size_t done = 0;
  std::size_t from = 0;
  while (!tokens_.empty()) {
    const Found found = find(input, from);
    if (found.token == nullptr) {
      break;
    }
    from = found.end;
    if (found.token->single_word && !stands_alone(input, found)) {
      continue;
    }
    // White space that the token before swallowed is not given again.
    const std::string_view before = input.substr(0, found.begin);
    const std::size_t begin =
        found.begin - swallowed_before(before.substr(std::min(done, before.size())), *found.token);
    const std::size_t end = found.end + swallowed_behind(input.substr(found.end), *found.token);
    // As in the reference, a token of white space that the one before swallowed whole is no token
    // any more.
    if (found.token->lstrip && std::max(begin, done) >= end) {
      continue;
    }
    if (done < begin) {
      on_text(input.substr(done, begin - done), done);
    }
    on_token(found.token->id);
    done = end;
  }
  if (done < input.size()) {
    on_text(input.substr(done), done);
  }
}

}  // namespace cortiq::model::tokenizer
