#include "tokenizer/pre_tokenizer.hpp"

#include <optional>

#include "tokenizer/byte_characters.hpp"

namespace cortiq::model::tokenizer {
namespace {

constexpr int kMaxDepth = 16;

// The split of GPT-2, which ByteLevel with use_regex applies.
constexpr std::string_view kGpt2Expression =
    R"('s|'t|'re|'ve|'m|'ll|'d| ?\p{L}+| ?\p{N}+| ?[^\s\p{L}\p{N}]+|\s+(?!\S)|\s+)";
constexpr std::string_view kPunctuationExpression = R"([!-/:-@\[-`{-~]|\p{P})";

SplitBehavior parse_behavior(const JsonValue& value, SplitBehavior absent) {
  if (value.is_null()) {
    return absent;
  }
  const std::string& name = value.string();
  if (name == "Isolated") return SplitBehavior::kIsolated;
  if (name == "Removed") return SplitBehavior::kRemoved;
  if (name == "MergedWithPrevious") return SplitBehavior::kMergedWithPrevious;
  if (name == "MergedWithNext") return SplitBehavior::kMergedWithNext;
  if (name == "Contiguous") return SplitBehavior::kContiguous;
  value.fail_input(fmt::format("unknown split behavior '{}'", name));
}

PrependScheme parse_scheme(const JsonValue& metaspace) {
  const JsonValue value = metaspace["prepend_scheme"];
  if (value.is_null()) {  // the older spelling
    return metaspace["add_prefix_space"].boolean(true) ? PrependScheme::kAlways
                                                       : PrependScheme::kNever;
  }
  const std::string& name = value.string();
  if (name == "always") return PrependScheme::kAlways;
  if (name == "first") return PrependScheme::kFirst;
  if (name == "never") return PrependScheme::kNever;
  value.fail_input(fmt::format("unknown prepend scheme '{}'", name));
}

// Turns the alternation of matches and texts between them into pieces; holds one span back where
// the behavior may still extend it.
template <typename Emit>
class SpanMerger {
 public:
  SpanMerger(SplitBehavior behavior, Emit emit) : behavior_(behavior), emit_(std::move(emit)) {}

  void add(Match span, bool is_match) {
    if (behavior_ == SplitBehavior::kIsolated) {
      emit_(span);
      return;
    }
    if (behavior_ == SplitBehavior::kRemoved) {
      if (!is_match) {
        emit_(span);
      }
      return;
    }
    if (held_ && joins_held(is_match)) {
      held_->end = span.end;
    } else {
      flush();
      held_ = span;
    }
    last_is_match_ = is_match;
  }
  void flush() {
    if (held_) {
      emit_(*held_);
      held_.reset();
    }
  }

 private:
  [[nodiscard]] bool joins_held(bool is_match) const {
    switch (behavior_) {
      case SplitBehavior::kContiguous:
        return is_match == last_is_match_;
      case SplitBehavior::kMergedWithPrevious:
        return is_match && !last_is_match_;
      default:  // kMergedWithNext
        return !is_match && last_is_match_;
    }
  }

  SplitBehavior behavior_;
  Emit emit_;
  std::optional<Match> held_;
  bool last_is_match_ = false;
};

}  // namespace

// One pass over one stretch of text; recursion depth is the number of stages.
struct PreTokenizer::Run {
  const PreTokenizer& owner;
  PatternScratch& scratch;
  PieceSink& sink;

  void pass(std::size_t stage, std::string_view piece, bool at_start) {
    if (piece.empty()) {
      return;
    }
    if (stage == owner.stages_.size()) {
      sink.take_piece(piece);
      return;
    }
    std::visit([&](const auto& what) { apply(what, stage + 1, piece, at_start); },
               owner.stages_[stage]);
  }

  void apply(const Split& split, std::size_t next, std::string_view piece, bool at_start) {
    SpanMerger merger(split.behavior, [&](Match span) {
      pass(next, piece.substr(span.begin, span.end - span.begin), at_start && span.begin == 0);
    });
    std::size_t done = 0;
    split.pattern.for_each(piece, scratch, [&](Match match) {
      if (done != match.begin) {
        merger.add({done, match.begin}, split.invert);
      }
      merger.add(match, !split.invert);
      done = match.end;
    });
    if (done != piece.size()) {
      merger.add({done, piece.size()}, split.invert);
    }
    merger.flush();
  }

  void apply(const PrefixSpace&, std::size_t next, std::string_view piece, bool at_start) {
    if (piece.front() == ' ') {
      pass(next, piece, at_start);
      return;
    }
    std::string longer = " ";
    longer.append(piece);
    pass(next, longer, at_start);
  }

  void apply(const ByteCharacters&, std::size_t next, std::string_view piece, bool at_start) {
    pass(next, copy_byte_characters(piece), at_start);
  }

  void apply(const SpaceMark& space, std::size_t next, std::string_view piece, bool at_start) {
    std::string marked;
    const bool wants_mark = space.scheme == PrependScheme::kAlways ||
                            (space.scheme == PrependScheme::kFirst && at_start);
    if (wants_mark && piece.front() != ' ' && !piece.starts_with(space.mark)) {
      marked = space.mark;
    }
    for (const char c : piece) {
      if (c == ' ') {
        marked.append(space.mark);
      } else {
        marked.push_back(c);
      }
    }
    pass(next, marked, at_start);
  }
};

PreTokenizer PreTokenizer::parse(const JsonValue& value) {
  PreTokenizer result;
  if (!value.is_null()) {
    result.append(value, 0);
  }
  return result;
}

void PreTokenizer::append(const JsonValue& value, int depth) {
  const std::string& type = value.type();
  const auto add_split = [&](std::string_view expression, SplitBehavior behavior, bool invert) {
    stages_.emplace_back(Split{Pattern::regex(expression, value.place()), behavior, invert});
  };
  if (type == "Sequence") {
    if (depth == kMaxDepth) {
      value.refuse("sequences are nested too deeply");
    }
    for (const JsonValue& item : value["pretokenizers"].items()) {
      append(item, depth + 1);
    }
  } else if (type == "Split") {
    stages_.emplace_back(Split{Pattern::parse(value["pattern"]),
                               parse_behavior(value["behavior"], SplitBehavior::kIsolated),
                               value["invert"].boolean(false)});
  } else if (type == "Digits") {
    const bool individual = value["individual_digits"].boolean(false);
    add_split(R"(\p{N})", individual ? SplitBehavior::kIsolated : SplitBehavior::kContiguous,
              false);
  } else if (type == "Punctuation") {
    add_split(kPunctuationExpression, parse_behavior(value["behavior"], SplitBehavior::kIsolated),
              false);
  } else if (type == "Whitespace") {
    add_split(R"(\w+|[^\w\s]+)", SplitBehavior::kRemoved, true);
  } else if (type == "WhitespaceSplit") {
    add_split(R"(\s)", SplitBehavior::kRemoved, false);
  } else if (type == "ByteLevel") {
    append_byte_level(value);
  } else if (type == "Metaspace") {
    append_metaspace(value);
  } else {
    value.refuse(fmt::format("the pre-tokenizer '{}' is not supported", type));
  }
}

void PreTokenizer::append_byte_level(const JsonValue& value) {
  if (value["add_prefix_space"].boolean(true)) {
    stages_.emplace_back(PrefixSpace{});
  }
  if (value["use_regex"].boolean(true)) {
    stages_.emplace_back(
        Split{Pattern::regex(kGpt2Expression, value.place()), SplitBehavior::kIsolated, false});
  }
  stages_.emplace_back(ByteCharacters{});
}

void PreTokenizer::append_metaspace(const JsonValue& value) {
  const std::string& mark = value["replacement"].string();
  if (mark.empty()) {
    value["replacement"].fail_input("expected one character");
  }
  stages_.emplace_back(SpaceMark{mark, parse_scheme(value)});
  if (value["split"].boolean(true)) {
    stages_.emplace_back(Split{Pattern::literal(mark), SplitBehavior::kMergedWithNext, false});
  }
}

bool PreTokenizer::ends_in_bytes() const {
  return !stages_.empty() && std::holds_alternative<ByteCharacters>(stages_.back());
}

void PreTokenizer::drop_byte_stage() {
  CORTIQ_ASSERT(ends_in_bytes());
  stages_.pop_back();
}

void PreTokenizer::run(std::string_view text, bool at_start, PatternScratch& scratch,
                       PieceSink& sink) const {
  Run{*this, scratch, sink}.pass(0, text, at_start);
}

}  // namespace cortiq::model::tokenizer
