#include "tokenizer/added_tokens.hpp"

#include <utf8proc.h>

#include "cortiq/support/error.hpp"
#include "tokenizer/utf8.hpp"

namespace cortiq::model::tokenizer {
namespace {

// The regex class \w by Unicode's annex on regular expressions: letters, marks, decimal digits,
// connectors (Pc), the two joiners, and the letter-like rest of Alphabetic (Nl and the circled
// letters).
bool is_word(char32_t value) {
  switch (utf8proc_category(static_cast<utf8proc_int32_t>(value))) {
    case UTF8PROC_CATEGORY_LU:
    case UTF8PROC_CATEGORY_LL:
    case UTF8PROC_CATEGORY_LT:
    case UTF8PROC_CATEGORY_LM:
    case UTF8PROC_CATEGORY_LO:
    case UTF8PROC_CATEGORY_MN:
    case UTF8PROC_CATEGORY_MC:
    case UTF8PROC_CATEGORY_ME:
    case UTF8PROC_CATEGORY_ND:
    case UTF8PROC_CATEGORY_NL:
    case UTF8PROC_CATEGORY_PC:
      return true;
    default:
      return value == 0x200C || value == 0x200D || (value >= 0x24B6 && value <= 0x24E9);
  }
}

}  // namespace

AddedTokens::AddedTokens() { first_.fill(-1); }

std::int32_t AddedTokens::child_of(std::int32_t node, unsigned char byte) const {
  std::int32_t child = nodes_[static_cast<std::size_t>(node)].child;
  while (child >= 0 && nodes_[static_cast<std::size_t>(child)].byte != byte) {
    child = nodes_[static_cast<std::size_t>(child)].sibling;
  }
  return child;
}

void AddedTokens::insert(AddedToken token) {
  CORTIQ_ASSERT(!token.content.empty());
  std::int32_t node = -1;
  for (const char c : token.content) {
    const auto byte = static_cast<unsigned char>(c);
    const std::int32_t next = node < 0 ? first_[byte] : child_of(node, byte);
    if (next >= 0) {
      node = next;
      continue;
    }
    const auto fresh = static_cast<std::int32_t>(nodes_.size());
    std::int32_t& link = node < 0 ? first_[byte] : nodes_[static_cast<std::size_t>(node)].child;
    const Node created{byte, -1, node < 0 ? -1 : link, -1};
    link = fresh;
    nodes_.push_back(created);
    node = fresh;
  }
  std::int32_t& slot = nodes_[static_cast<std::size_t>(node)].token;
  if (slot < 0) {
    slot = static_cast<std::int32_t>(tokens_.size());
    tokens_.push_back(std::move(token));
  }
}

AddedTokens::Found AddedTokens::find(std::string_view input, std::size_t from) const {
  for (std::size_t begin = from; begin < input.size(); ++begin) {
    std::int32_t node = first_[static_cast<unsigned char>(input[begin])];
    Found found{begin, begin, nullptr};
    for (std::size_t end = begin + 1; node >= 0; ++end) {
      const std::int32_t token = nodes_[static_cast<std::size_t>(node)].token;
      if (token >= 0) {
        found.end = end;
        found.token = &tokens_[static_cast<std::size_t>(token)];
      }
      node = end < input.size() ? child_of(node, static_cast<unsigned char>(input[end])) : -1;
    }
    if (found.token != nullptr) {
      return found;
    }
  }
  return {input.size(), input.size(), nullptr};
}

bool AddedTokens::stands_alone(std::string_view input, const Found& found) {
  const std::string_view before = input.substr(0, found.begin);
  if (!before.empty() && is_word(last_char(before))) {
    return false;
  }
  std::size_t end = found.end;
  return end == input.size() || !is_word(next_char(input, &end));
}

std::size_t swallowed_before(std::string_view text, const AddedToken& token) {
  return token.lstrip ? trailing_white_space(text) : 0;
}

std::size_t swallowed_behind(std::string_view text, const AddedToken& token) {
  return token.rstrip ? leading_white_space(text) : 0;
}

}  // namespace cortiq::model::tokenizer
