#include "cortiq/model/tokenizer.hpp"

#include <algorithm>

#include "tokenizer/added_tokens.hpp"
#include "tokenizer/bpe.hpp"
#include "tokenizer/decoder.hpp"
#include "tokenizer/normalizer.hpp"
#include "tokenizer/post_processor.hpp"
#include "tokenizer/pre_tokenizer.hpp"
#include "tokenizer/utf8.hpp"

namespace cortiq::model {

using tokenizer::AddedToken;
using tokenizer::AddedTokens;
using tokenizer::Bpe;
using tokenizer::JsonValue;

struct Tokenizer::State {
  std::string where;
  tokenizer::Normalizer normalizer;
  tokenizer::PreTokenizer pre_tokenizer;
  Bpe bpe;
  tokenizer::Decoder decoder;
  AddedTokens raw_tokens;         // looked for before the normalizer
  AddedTokens normalized_tokens;  // and behind it
  std::unordered_map<TokenId, std::string> added;
  std::int64_t size = 0;
  TokenId bos = -1;

  void add_tokens(const JsonValue& value);
  void add_token(const JsonValue& value);
};

namespace {

tokenizer::Json parse_json(ByteSpan json, std::string_view where) {
  const auto* text = reinterpret_cast<const char*>(json.data());
  try {
    return tokenizer::Json::parse(text, text + json.size());
  } catch (const tokenizer::Json::exception& error) {
    fail(ErrorKind::kInput, "{}: not JSON: {}; the tokenizer is damaged", where, error.what());
  }
}

// One encode call: stretch of text -> normalizer -> pieces -> ids.
class Encoder final : public tokenizer::PieceSink {
 public:
  Encoder(const tokenizer::Normalizer& normalizer, const AddedTokens& normalized_tokens,
          const tokenizer::PreTokenizer& pre_tokenizer, const Bpe& bpe)
      : normalizer_(normalizer),
        normalized_tokens_(normalized_tokens),
        pre_tokenizer_(pre_tokenizer),
        bpe_(bpe) {}

  void take_stretch(std::string_view text, bool at_start) {
    std::string buffer;
    normalized_tokens_.split(
        normalizer_.apply(text, &buffer, patterns_),
        [&](std::string_view part, std::size_t offset) {
          pre_tokenizer_.run(part, at_start && offset == 0, patterns_, *this);
        },
        [&](TokenId id) { take_token(id); });
  }
  void take_token(TokenId id) { ids_.push_back(id); }
  void take_piece(std::string_view piece) override { bpe_.encode(piece, scratch_, &ids_); }
  [[nodiscard]] std::vector<TokenId> ids() && { return std::move(ids_); }

 private:
  const tokenizer::Normalizer& normalizer_;
  const AddedTokens& normalized_tokens_;
  const tokenizer::PreTokenizer& pre_tokenizer_;
  const Bpe& bpe_;
  tokenizer::PatternScratch patterns_;
  tokenizer::BpeScratch scratch_;
  std::vector<TokenId> ids_;
};

}  // namespace

void Tokenizer::State::add_tokens(const JsonValue& value) {
  if (value.is_null()) {
    return;
  }
  for (const JsonValue& item : value.items()) {
    add_token(item);
  }
}

void Tokenizer::State::add_token(const JsonValue& value) {
  AddedToken token;
  token.id = static_cast<TokenId>(value["id"].integer(0, INT32_MAX - 1));
  token.content = value["content"].string();
  token.single_word = value["single_word"].boolean(false);
  token.lstrip = value["lstrip"].boolean(false);
  token.rstrip = value["rstrip"].boolean(false);
  token.special = value["special"].boolean(false);
  token.normalized = value["normalized"].boolean(!token.special);
  if (token.content.empty()) {
    value["content"].fail_input("an added token must not be empty");
  }
  const std::optional<TokenId> in_vocab = bpe.find(token.content);
  if (in_vocab && *in_vocab != token.id) {
    value.fail_input(fmt::format("'{}' has id {} here and id {} in the vocabulary", token.content,
                                 token.id, *in_vocab));
  }
  const auto named = bpe.tokens().find(token.id);
  if (named != bpe.tokens().end() && named->second != token.content) {
    value.fail_input(fmt::format("id {} of '{}' is that of '{}' in the vocabulary", token.id,
                                 token.content, named->second));
  }
  const auto [other, fresh] = added.emplace(token.id, token.content);
  if (!fresh && other->second != token.content) {
    value.fail_input(
        fmt::format("id {} of '{}' is also that of '{}'", token.id, token.content, other->second));
  }
  if (!token.normalized) {
    raw_tokens.insert(std::move(token));
    return;
  }
  std::string buffer;
  tokenizer::PatternScratch patterns;
  token.content = std::string(normalizer.apply(token.content, &buffer, patterns));
  if (!token.content.empty()) {
    added[token.id] = token.content;  // as the reference, which decodes to the normalized text
    normalized_tokens.insert(std::move(token));
  }
}

Tokenizer::Tokenizer(std::unique_ptr<const State> state) : state_(std::move(state)) {}
Tokenizer::~Tokenizer() = default;
Tokenizer::Tokenizer(Tokenizer&&) noexcept = default;

Tokenizer Tokenizer::parse(ByteSpan json, std::string_view where) {
  const tokenizer::Json document = parse_json(json, where);
  const JsonValue root(document, fmt::format("{}:", where));
  root.check_object();
  tokenizer::PreTokenizer pre_tokenizer = tokenizer::PreTokenizer::parse(root["pre_tokenizer"]);
  Bpe bpe = Bpe::parse(root["model"], pre_tokenizer.ends_in_bytes());
  if (bpe.takes_bytes()) {
    pre_tokenizer.drop_byte_stage();
  }
  auto state = std::make_unique<State>(State{std::string(where),
                                             tokenizer::Normalizer::parse(root["normalizer"]),
                                             std::move(pre_tokenizer),
                                             std::move(bpe),
                                             tokenizer::Decoder::parse(root["decoder"]),
                                             {},
                                             {},
                                             {},
                                             0,
                                             -1});
  state->add_tokens(root["added_tokens"]);
  const auto count_ids = [&](const auto& tokens) {
    for (const auto& [id, text] : tokens) {
      state->size = std::max(state->size, std::int64_t{id} + 1);
    }
  };
  count_ids(state->bpe.tokens());
  count_ids(state->added);
  state->bos = tokenizer::parse_bos(root["post_processor"]).value_or(-1);
  return Tokenizer(std::move(state));
}

std::vector<TokenId> Tokenizer::encode(std::string_view text) const {
  std::string repaired;
  if (tokenizer::valid_utf8_prefix(text) != text.size()) {
    repaired = tokenizer::copy_valid_utf8(text);
    text = repaired;
  }
  Encoder encoder(state_->normalizer, state_->normalized_tokens, state_->pre_tokenizer,
                  state_->bpe);
  state_->raw_tokens.split(
      text,
      [&](std::string_view stretch, std::size_t offset) {
        encoder.take_stretch(stretch, offset == 0);
      },
      [&](TokenId id) { encoder.take_token(id); });
  return std::move(encoder).ids();
}

std::string Tokenizer::decode(std::span<const TokenId> ids) const {
  std::vector<std::string> tokens;
  tokens.reserve(ids.size());
  for (const TokenId id : ids) {
    const auto added = state_->added.find(id);
    const auto token = state_->bpe.tokens().find(id);
    if (added == state_->added.end() && token == state_->bpe.tokens().end()) {
      fail(ErrorKind::kInput, "{}: no token has id {}", state_->where, id);
    }
    tokens.push_back(added != state_->added.end() ? added->second : token->second);
  }
  return state_->decoder.decode(std::move(tokens));
}

std::int64_t Tokenizer::size() const { return state_->size; }

TokenId Tokenizer::bos() const { return state_->bos; }

}  // namespace cortiq::model
