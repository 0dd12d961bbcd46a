// bpe_parse.cpp: the "model" object of a tokenizer.json -> Bpe.
#include <algorithm>
#include <limits>

#include "tokenizer/bpe.hpp"
#include "tokenizer/byte_characters.hpp"
#include "tokenizer/utf8.hpp"

namespace cortiq::model::tokenizer {
namespace {

constexpr std::int64_t kGreatestId = std::numeric_limits<TokenId>::max() - 1;

// C0, C1 and F5 to FF do not occur in UTF-8, so a byte-level vocabulary may lack them.
bool occurs_in_utf8(unsigned byte) { return byte < 0xC0 || (byte > 0xC1 && byte < 0xF5); }

void check_unused(const JsonValue& model, std::string_view key) {
  const JsonValue value = model[key];
  if (!value.is_null() && !(value.is_string() && value.string().empty())) {
    value.refuse(fmt::format("{} is not supported", key));
  }
}

}  // namespace

Bpe Bpe::parse(const JsonValue& value, bool byte_level) {
  if (value.is_null()) {
    value.fail_input("there is no model");
  }
  value.check_object();
  // Old files leave the type out; only BPE has merges.
  const bool typed = !value["type"].is_null();
  if (typed && value.type() != "BPE") {
    value.refuse(fmt::format("the model '{}' is not supported, only BPE is", value.type()));
  }
  if (!typed && value["merges"].is_null()) {
    value.fail_input("neither a type nor merges");
  }
  check_unused(value, "continuing_subword_prefix");
  check_unused(value, "end_of_word_suffix");
  const JsonValue dropout = value["dropout"];
  if (!dropout.is_null() && !(dropout.json().is_number() && dropout.json().get<double>() == 0.0)) {
    dropout.refuse("random dropout of merges is not supported");
  }
  Bpe bpe;
  bpe.place_ = value.place();
  bpe.ignore_merges_ = value["ignore_merges"].boolean(false);
  bpe.byte_fallback_ = value["byte_fallback"].boolean(false);
  bpe.fuse_unknown_ = value["fuse_unk"].boolean(false);
  if (!value["unk_token"].is_null()) {
    bpe.unknown_ = value["unk_token"].string();
  }
  bpe.parse_vocab(value["vocab"]);
  bpe.parse_merges(value["merges"]);
  if (byte_level) {
    bpe.prepare_bytes();
  }
  bpe.prepare_cuts();
  return bpe;
}

void Bpe::parse_vocab(const JsonValue& value) {
  value.check_object();
  for (const auto& [token, number] : value.json().items()) {
    const JsonValue entry(number, fmt::format("{}['{}']", value.place(), token));
    const auto id = static_cast<TokenId>(entry.integer(0, kGreatestId));
    vocab_.insert(token, id);
    const auto [other, fresh] = tokens_.emplace(id, token);
    if (!fresh) {
      entry.fail_input(fmt::format("id {} is also that of '{}'", id, other->second));
    }
  }
  for (std::size_t byte = 0; byte < fallback_ids_.size(); ++byte) {
    fallback_ids_[byte] = vocab_.find(fmt::format("<0x{:02X}>", byte)).value_or(-1);
  }
  for (std::size_t c = 0; c < ascii_ids_.size(); ++c) {
    ascii_ids_[c] = vocab_.find(std::string(1, static_cast<char>(c))).value_or(-1);
  }
}

// Two spellings: ["a", "b"], and "a b" split at the first space.
void Bpe::parse_merges(const JsonValue& value) {
  std::uint32_t rank = 0;
  if (!value.json().is_array()) {
    value.fail_input(fmt::format("expected an array, found {}", value.json().type_name()));
  }
  for (const Json& item : value.json()) {
    const JsonValue merge(item, fmt::format("{}[{}]", value.place(), rank));
    if (merge.is_string()) {
      const std::string_view text = merge.string();
      const std::size_t space = text.find(' ');
      if (space == std::string_view::npos) {
        merge.fail_input(fmt::format("'{}' has no space between two tokens", text));
      }
      add_merge(merge, text.substr(0, space), text.substr(space + 1), rank);
    } else {
      const std::vector<JsonValue> pair = merge.items();
      if (pair.size() != 2) {
        merge.fail_input(fmt::format("expected two tokens, found {}", pair.size()));
      }
      add_merge(merge, pair[0].string(), pair[1].string(), rank);
    }
    ++rank;
  }
}

void Bpe::add_merge(const JsonValue& place, std::string_view left, std::string_view right,
                    std::uint32_t rank) {
  const auto id_of = [&](std::string_view token) {
    const std::optional<TokenId> id = vocab_.find(token);
    if (!id) {
      place.fail_input(fmt::format("'{}' is not in the vocabulary", token));
    }
    return *id;
  };
  if (left.empty() || right.empty()) {
    place.fail_input("a merge of an empty token");
  }
  const TokenId left_id = id_of(left);
  const TokenId right_id = id_of(right);
  merges_.insert(left_id, right_id, {rank, id_of(std::string(left) + std::string(right))});
}

void Bpe::prepare_bytes() {
  takes_bytes_ = true;
  for (unsigned byte = 0; byte < 256; ++byte) {
    std::string character;
    append_char(&character, byte_character(static_cast<unsigned char>(byte)));
    byte_ids_[byte] = vocab_.find(character).value_or(-1);
    takes_bytes_ = takes_bytes_ && (byte_ids_[byte] >= 0 || !occurs_in_utf8(byte));
  }
  if (!takes_bytes_ || !ignore_merges_) {
    return;
  }
  for (const auto& [id, token] : tokens_) {
    if (const std::optional<std::string> bytes = try_bytes_of_characters(token)) {
      raw_vocab_.insert(*bytes, id);
    }
  }
}

// The unknown token and the bytes <0xNN> stand for another text than their own.
bool Bpe::stands_for_other_text(TokenId id) const {
  return (!unknown_.empty() && vocab_.find(unknown_) == id) ||
         (byte_fallback_ &&
          std::find(fallback_ids_.begin(), fallback_ids_.end(), id) != fallback_ids_.end());
}

// For encode_chars: the character pairs at the seams of all merges. Should a token that stands for
// another text take part in a merge, seams say nothing and pieces stay whole.
void Bpe::prepare_cuts() {
  may_cut_ = !takes_bytes_;
  ascii_joins_.assign(may_cut_ ? std::size_t{128} * 128 : 0, false);
  if (!may_cut_) {
    return;
  }
  merges_.for_each_pair([this](TokenId left, TokenId right) {
    const char32_t end = last_char(tokens_.at(left));
    std::size_t at = 0;
    const char32_t begin = next_char(tokens_.at(right), &at);
    joins_.insert((std::uint64_t{end} << 32) | begin);
    if (end < 128 && begin < 128) {
      ascii_joins_[end * 128 + begin] = true;
    }
    may_cut_ = may_cut_ && !stands_for_other_text(left) && !stands_for_other_text(right);
  });
}

}  // namespace cortiq::model::tokenizer
