// normalizer.hpp: the "normalizer" of a tokenizer.json (calibration.md section 2.3, step 2): text
// to text, applied to every stretch between added tokens. Handled: NFC NFD NFKC NFKD, Lowercase,
// Strip, Prepend, Replace, Sequence. Others are refused by name.
#pragma once

#include <string>
#include <string_view>
#include <variant>
#include <vector>

#include "tokenizer/json_value.hpp"
#include "tokenizer/pattern.hpp"

namespace cortiq::model::tokenizer {

struct UnicodeForm {
  bool compose;
  bool compatible;
};
struct Lowercase {};
struct StripSpace {
  bool left;
  bool right;
};
struct Prepend {
  std::string text;
};
struct Replace {
  Pattern pattern;
  std::string content;
};

/// Immutable; may be shared by threads.
class Normalizer {
 public:
  Normalizer() = default;
  /// @param value  null: the identity
  [[nodiscard]] static Normalizer parse(const JsonValue& value);

  /// The normalized text: `text` itself where nothing changes, else a view of `*buffer`.
  [[nodiscard]] std::string_view apply(std::string_view text, std::string* buffer,
                                       PatternScratch& scratch) const;

 private:
  using Step = std::variant<UnicodeForm, Lowercase, StripSpace, Prepend, Replace>;
  void append(const JsonValue& value, int depth);
  std::vector<Step> steps_;
};

}  // namespace cortiq::model::tokenizer
