#include "tokenizer/normalizer.hpp"

#include <utf8proc.h>

#include <algorithm>
#include <array>

#include "tokenizer/utf8.hpp"

namespace cortiq::model::tokenizer {
namespace {

constexpr int kMaxDepth = 16;
// Below U+0300 no character is a combining mark and none is changed by NFC (Unicode,
// DerivedNormalizationProps).
constexpr unsigned char kLeadOfU0300 = 0xCC;

using CodePoints = std::vector<utf8proc_int32_t>;

void append_decomposed(char32_t value, utf8proc_option_t options, CodePoints* out) {
  std::array<utf8proc_int32_t, 32> buffer{};  // the longest decomposition has 18 code points
  int boundary_class = 0;
  const auto count = utf8proc_decompose_char(static_cast<utf8proc_int32_t>(value), buffer.data(),
                                             static_cast<utf8proc_ssize_t>(buffer.size()), options,
                                             &boundary_class);
  CORTIQ_ASSERT(count >= 0 && count <= static_cast<utf8proc_ssize_t>(buffer.size()));
  out->insert(out->end(), buffer.begin(), buffer.begin() + count);
}

int combining_class(utf8proc_int32_t value) {
  return utf8proc_get_property(value)->combining_class;
}

// Canonical ordering. The library's own ordering is quadratic in the length of a run of marks.
void sort_marks(CodePoints* text) {
  auto begin = text->begin();
  while (begin != text->end()) {
    if (combining_class(*begin) == 0) {
      ++begin;
      continue;
    }
    const auto end = std::find_if(
        begin, text->end(), [](utf8proc_int32_t value) { return combining_class(value) == 0; });
    std::stable_sort(begin, end, [](utf8proc_int32_t a, utf8proc_int32_t b) {
      return combining_class(a) < combining_class(b);
    });
    begin = end;
  }
}

std::string copy_in_form(std::string_view text, const UnicodeForm& form) {
  const int options =
      UTF8PROC_DECOMPOSE | UTF8PROC_STABLE | (form.compatible ? UTF8PROC_COMPAT : 0);
  CodePoints points;
  points.reserve(text.size());
  for (std::size_t i = 0; i < text.size();) {
    append_decomposed(next_char(text, &i), static_cast<utf8proc_option_t>(options), &points);
  }
  sort_marks(&points);
  if (form.compose) {
    const auto size = utf8proc_normalize_utf32(
        points.data(), static_cast<utf8proc_ssize_t>(points.size()),
        static_cast<utf8proc_option_t>(UTF8PROC_COMPOSE | UTF8PROC_STABLE));
    CORTIQ_ASSERT(size >= 0);
    points.resize(static_cast<std::size_t>(size));
  }
  std::string result;
  result.reserve(text.size());
  for (const utf8proc_int32_t value : points) {
    append_char(&result, static_cast<char32_t>(value));
  }
  return result;
}

bool is_in_form(std::string_view text, const UnicodeForm& form) {
  // Decomposition and compatibility change characters from U+00A0 on.
  const unsigned char limit = form.compose && !form.compatible ? kLeadOfU0300 : 0x80;
  return std::all_of(text.begin(), text.end(),
                     [limit](char c) { return static_cast<unsigned char>(c) < limit; });
}

std::string copy_lowercase(std::string_view text) {
  std::string result;
  result.reserve(text.size());
  for (std::size_t i = 0; i < text.size();) {
    const char32_t value = next_char(text, &i);
    if (value == 0x130) {  // the only capital whose small form has two code points
      result.append("i\xCC\x87");
      continue;
    }
    append_char(&result,
                static_cast<char32_t>(utf8proc_tolower(static_cast<utf8proc_int32_t>(value))));
  }
  return result;
}

struct Applier {
  std::string_view text;
  std::string* buffer;
  PatternScratch& scratch;

  std::string_view store(std::string result) const {
    *buffer = std::move(result);
    return *buffer;
  }
  std::string_view operator()(const UnicodeForm& form) const {
    return is_in_form(text, form) ? text : store(copy_in_form(text, form));
  }
  std::string_view operator()(const Lowercase&) const { return store(copy_lowercase(text)); }
  std::string_view operator()(const StripSpace& strip) const {
    std::string_view rest = text;
    rest.remove_prefix(strip.left ? leading_white_space(rest) : 0);
    rest.remove_suffix(strip.right ? trailing_white_space(rest) : 0);
    return rest;
  }
  std::string_view operator()(const Prepend& prepend) const {
    if (text.empty()) {
      return text;
    }
    std::string result = prepend.text;
    result.append(text);
    return store(std::move(result));
  }
  std::string_view operator()(const Replace& replace) const {
    return store(replace.pattern.copy_replaced(text, replace.content, scratch));
  }
};

}  // namespace

Normalizer Normalizer::parse(const JsonValue& value) {
  Normalizer result;
  if (!value.is_null()) {
    result.append(value, 0);
  }
  return result;
}

void Normalizer::append(const JsonValue& value, int depth) {
  const std::string& type = value.type();
  if (type == "Sequence") {
    if (depth == kMaxDepth) {
      value.refuse("sequences are nested too deeply");
    }
    for (const JsonValue& item : value["normalizers"].items()) {
      append(item, depth + 1);
    }
  } else if (type == "NFC" || type == "NFD" || type == "NFKC" || type == "NFKD") {
    steps_.emplace_back(UnicodeForm{type.back() == 'C', type.size() == 4});
  } else if (type == "Lowercase") {
    steps_.emplace_back(Lowercase{});
  } else if (type == "Strip") {
    steps_.emplace_back(
        StripSpace{value["strip_left"].boolean(true), value["strip_right"].boolean(true)});
  } else if (type == "Prepend") {
    steps_.emplace_back(Prepend{value["prepend"].string()});
  } else if (type == "Replace") {
    steps_.emplace_back(Replace{Pattern::parse(value["pattern"]), value["content"].string()});
  } else {
    value.refuse(fmt::format("the normalizer '{}' is not supported", type));
  }
}

std::string_view Normalizer::apply(std::string_view text, std::string* buffer,
                                   PatternScratch& scratch) const {
  for (const Step& step : steps_) {
    text = std::visit(Applier{text, buffer, scratch}, step);
  }
  return text;
}

}  // namespace cortiq::model::tokenizer
