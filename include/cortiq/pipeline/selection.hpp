// selection.hpp: which tensor gets which codec, and how (cli.md section 3).
#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <vector>

#include "cortiq/cmf/source.hpp"
#include "cortiq/codec/policy.hpp"
#include "cortiq/gptq/options.hpp"

namespace cortiq::pipeline {

/// Codec of embedding and head.
enum class Embeddings { kQ82f, kF16, kProfile };

struct RuleOverride {
  std::string pattern;
  gptq::Q2tpRule rule = gptq::Q2tpRule::kPlaced;
};
/// "placed", "full", "cortiq", "absmax"; throws Error{kUsage}.
[[nodiscard]] gptq::Q2tpRule parse_rule(std::string_view text);
/// PATTERN=RULE, split at the last '='; throws Error{kUsage}.
[[nodiscard]] RuleOverride parse_rule_override(std::string_view text);

struct SelectionOptions {
  codec::Codec profile = codec::Codec::kQ4tp;
  Embeddings embeddings = Embeddings::kQ82f;
  std::vector<codec::TensorOverride> overrides;  ///< --tensor-quant
  std::vector<std::string> skip{"embed_tokens",
                                "lm_head"};  ///< substrings of names that are never GPTQ candidates
  bool skip_given = false;                   ///< by the user: then each must match something
  std::vector<std::string> include;          ///< globs; if any, only matching names are candidates
  gptq::Q2tpRule rule = gptq::Q2tpRule::kPlaced;
  std::vector<RuleOverride> rule_overrides;
  gptq::OneBitOptions one_bit;  ///< of q1s and q1t
  double down_keep = 1;         ///< factor of one_bit.keep for down_proj; at most a quarter is kept
  std::int64_t max_cols = 0;    ///< wider matrices do not get q1s or q1t; 0 = no limit
  bool gptq = true;  ///< false: rounding only
};

enum class Action { kCopy, kRound, kGptq };

struct TensorChoice {
  Action action = Action::kCopy;
  codec::Codec codec = codec::Codec::kF16;  ///< unless copied
  gptq::Q2tpRule rule = gptq::Q2tpRule::kPlaced;
  gptq::OneBitOptions one_bit;  ///< of this tensor
  std::string reason;           ///< why it is copied or only rounded
  bool missed = false;          ///< would be a GPTQ candidate, but for its width
};

/// The GPTQ target of a codec; nullopt for codecs that are only rounded to.
[[nodiscard]] std::optional<gptq::Target> gptq_target(codec::Codec codec) noexcept;

/// One choice per tensor of the source, in order. A pattern of the user that matches no tensor, and
/// an override of a tensor that cannot be encoded, are Error{kUsage}.
[[nodiscard]] std::vector<TensorChoice> select_tensors(const cmf::Source& source,
                                                       const SelectionOptions& options);

}  // namespace cortiq::pipeline
