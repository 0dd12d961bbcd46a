#include "tokenizer/pattern.hpp"

#define PCRE2_CODE_UNIT_WIDTH 8
#include <pcre2.h>

#include <algorithm>
#include <array>

#include "tokenizer/utf8.hpp"

namespace cortiq::model::tokenizer {
namespace {

// A compiled expression may nest this many bytes of machine stack (the library's own default is 32
// KiB).
constexpr std::size_t kJitStackBytes = std::size_t{8} << 20;

// Steps per search: a split pattern backtracks once over a run of white space, so the limit grows
// with the text.
constexpr std::uint64_t kStepsPerByte = 64;
constexpr std::uint64_t kStepsAlways = 100'000;

std::string pcre2_message(int code) {
  std::array<PCRE2_UCHAR, 256> buffer{};
  pcre2_get_error_message(code, buffer.data(), buffer.size());
  std::string message;
  for (const PCRE2_UCHAR byte : buffer) {
    if (byte == 0) {
      break;
    }
    message.push_back(static_cast<char>(byte));
  }
  return message;
}

PCRE2_SPTR as_units(std::string_view text) {
  static const char kEmpty = 0;
  return reinterpret_cast<PCRE2_SPTR>(text.data() == nullptr ? &kEmpty : text.data());
}

}  // namespace

struct PatternScratch::State {
  // One pair: only the bounds of the whole match are read.
  pcre2_match_data* data = pcre2_match_data_create(1, nullptr);
  pcre2_match_context* context = pcre2_match_context_create(nullptr);
  pcre2_jit_stack* stack = nullptr;

  State() {
    if (data == nullptr || context == nullptr) {
      release();
      throw std::bad_alloc();
    }
    stack = pcre2_jit_stack_create(std::size_t{32} << 10, kJitStackBytes, nullptr);
    if (stack != nullptr) {
      pcre2_jit_stack_assign(context, nullptr, stack);
    }
  }
  State(const State&) = delete;
  State& operator=(const State&) = delete;
  ~State() { release(); }

  void release() {
    pcre2_jit_stack_free(stack);
    pcre2_match_context_free(context);
    pcre2_match_data_free(data);
  }
};

PatternScratch::PatternScratch() : state_(std::make_unique<State>()) {}
PatternScratch::~PatternScratch() = default;

struct Pattern::Code {
  explicit Code(pcre2_code* compiled) : code(compiled) {
    // Without a just-in-time compiler (another machine, a hardened kernel) the interpreter does the
    // work.
    jit = pcre2_jit_compile(code, PCRE2_JIT_COMPLETE) == 0;
  }
  Code(const Code&) = delete;
  Code& operator=(const Code&) = delete;
  ~Code() { pcre2_code_free(code); }

  pcre2_code* code;
  bool jit = false;
};

Pattern::Pattern() = default;
Pattern::~Pattern() = default;
Pattern::Pattern(Pattern&&) noexcept = default;
Pattern& Pattern::operator=(Pattern&&) noexcept = default;

Pattern Pattern::literal(std::string text) {
  Pattern pattern;
  pattern.literal_ = std::move(text);
  return pattern;
}

Pattern Pattern::regex(std::string_view expression, const std::string& place) {
  const std::string translated = translate_expression(expression, place);
  std::unique_ptr<pcre2_compile_context, decltype(&pcre2_compile_context_free)> context(
      pcre2_compile_context_create(nullptr), &pcre2_compile_context_free);
  if (context == nullptr) {
    throw std::bad_alloc();
  }
  pcre2_set_newline(context.get(), PCRE2_NEWLINE_LF);
  int error = 0;
  PCRE2_SIZE offset = 0;
  pcre2_code* code =
      pcre2_compile(as_units(translated), translated.size(),
                    PCRE2_UTF | PCRE2_UCP | PCRE2_NEVER_BACKSLASH_C | PCRE2_MULTILINE, &error,
                    &offset, context.get());
  if (code == nullptr) {
    fail(ErrorKind::kUnsupported,
         "{}: the expression '{}' cannot be compiled: {} (byte {} of '{}')", place, expression,
         pcre2_message(error), offset, translated);
  }
  Pattern pattern;
  pattern.place_ = place;
  pattern.code_ = std::make_unique<const Code>(code);
  return pattern;
}

Pattern Pattern::parse(const JsonValue& value) {
  const JsonValue text = value["String"];
  const JsonValue expression = value["Regex"];
  if (text.is_null() == expression.is_null()) {
    value.fail_input("expected one of String and Regex");
  }
  if (!expression.is_null()) {
    return regex(expression.string(), expression.place());
  }
  if (text.string().empty()) {
    text.refuse("the empty string as a pattern is not supported");
  }
  return literal(text.string());
}

std::optional<Match> Pattern::find(std::string_view text, std::size_t from,
                                   PatternScratch& scratch) const {
  if (code_ == nullptr) {
    const std::size_t begin = text.find(literal_, from);
    if (begin == std::string_view::npos) {
      return std::nullopt;
    }
    return Match{begin, begin + literal_.size()};
  }
  PatternScratch::State& state = *scratch.state_;
  const std::uint64_t steps = kStepsAlways + kStepsPerByte * text.size();
  pcre2_set_match_limit(state.context,
                        static_cast<std::uint32_t>(std::min<std::uint64_t>(steps, UINT32_MAX)));
  int found = PCRE2_ERROR_JIT_STACKLIMIT;
  if (code_->jit) {
    found = pcre2_jit_match(code_->code, as_units(text), text.size(), from, PCRE2_NO_UTF_CHECK,
                            state.data, state.context);
  }
  if (found == PCRE2_ERROR_JIT_STACKLIMIT) {
    found = pcre2_match(code_->code, as_units(text), text.size(), from,
                        PCRE2_NO_UTF_CHECK | PCRE2_NO_JIT, state.data, state.context);
  }
  if (found == PCRE2_ERROR_NOMATCH) {
    return std::nullopt;
  }
  if (found < 0) {
    fail(ErrorKind::kUnsupported, "{}: splitting {} bytes of text failed: {}", place_, text.size(),
         pcre2_message(found));
  }
  const PCRE2_SIZE* bounds = pcre2_get_ovector_pointer(state.data);
  // \K in a look-around could report an end before the begin; translate_expression refuses \K.
  CORTIQ_ASSERT(bounds[0] <= bounds[1] && bounds[1] <= text.size());
  return Match{bounds[0], bounds[1]};
}

std::string Pattern::copy_replaced(std::string_view text, std::string_view content,
                                   PatternScratch& scratch) const {
  std::string result;
  result.reserve(text.size());
  std::size_t done = 0;
  for_each(text, scratch, [&](Match match) {
    result.append(text.substr(done, match.begin - done));
    result.append(content);
    done = match.end;
  });
  result.append(text.substr(done));
  return result;
}

std::size_t next_boundary(std::string_view text, std::size_t from) {
  return from < text.size() ? from + char_size(text[from]) : from + 1;
}

}  // namespace cortiq::model::tokenizer
