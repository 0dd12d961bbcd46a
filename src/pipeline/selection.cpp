#include "cortiq/pipeline/selection.hpp"

#include <algorithm>

namespace cortiq::pipeline {
namespace {

using codec::Codec;

codec::ModelTraits traits_of(const cmf::Source& source) {
  const cmf::Json& arch = source.header().arch();
  codec::ModelTraits traits;
  traits.arch_name = source.header().arch_name();
  traits.has_moe = arch.contains("moe") && arch["moe"].is_object();
  traits.qwen4_exp = arch.contains("qwen4_exp") && arch["qwen4_exp"].is_object();
  if (arch.contains("linear_core") && arch["linear_core"].is_object()) {
    traits.gated_delta_net = arch["linear_core"].value("kind", "") == "gated_delta_net";
  }
  return traits;
}

constexpr double kMostKept = 0.25;  ///< share of the weights in an overlay

bool is_one_bit(Codec codec) { return codec == Codec::kQ1s || codec == Codec::kQ1t; }

bool contains_any(std::string_view name, const std::vector<std::string>& parts) {
  return std::any_of(parts.begin(), parts.end(), [&](const std::string& part) {
    return !part.empty() && name.find(part) != std::string_view::npos;
  });
}

bool matches_any(std::string_view name, const std::vector<std::string>& globs) {
  return std::any_of(globs.begin(), globs.end(),
                     [&](const std::string& glob) { return codec::glob_match(glob, name); });
}

Codec embedding_codec(const SelectionOptions& options, Codec profile) {
  switch (options.embeddings) {
    case Embeddings::kF16:
      return Codec::kF16;
    case Embeddings::kQ82f:
      return Codec::kQ82f;
    case Embeddings::kProfile:
      break;
  }
  return profile;
}

/// Empty if the tensor can be encoded at all.
std::string copy_reason(const cmf::TensorInfo& tensor) {
  if (tensor.name.starts_with("skill.") || tensor.name.starts_with("route."))
    return "belongs to a skill or router";
  if (tensor.shape.size() != 2) return "not a matrix";
  if (codec::keeps_float(tensor.name)) return "kept in float by name";
  if (tensor.elements() < 32) return "fewer than 32 weights";
  return {};
}

class Selector {
 public:
  Selector(const cmf::Source& source, const SelectionOptions& options)
      : options_(options), traits_(traits_of(source)) {}

  [[nodiscard]] TensorChoice choose(const cmf::TensorInfo& tensor) const {
    TensorChoice choice;
    choice.reason = copy_reason(tensor);
    if (!choice.reason.empty()) return choice;
    const auto named = codec::override_codec(options_.overrides, tensor.name);
    choice.codec = named ? *named : profile_choice(tensor.name);
    const bool grouped = codec::with_column_fallback(choice.codec, tensor.shape[1]) == choice.codec;
    const bool one_bit = options_.gptq && grouped && is_one_bit(choice.codec);
    // Only the one-bit codecs take a matrix that is quantized already (cli.md section 3).
    if (!cmf::is_float(tensor.dtype) && !one_bit) {
      choice.reason = fmt::format("already {}", cmf::dtype_name(tensor.dtype));
      return choice;
    }
    TensorChoice asked = choice;
    choice.missed = !grouped && is_candidate(tensor, asked);
    if (!grouped && (named || !options_.gptq)) {
      choice.codec = codec::with_column_fallback(choice.codec, tensor.shape[1]);
      choice.reason = "width is not a multiple of 32";
    } else if (!grouped) {
      choice.reason = "width is not a multiple of 32";
      return choice;
    }
    choice.action = Action::kRound;
    choice.rule = rule_of(tensor.name);
    choice.one_bit = one_bit_of(tensor.name);
    if (is_candidate(tensor, choice)) {
      choice.action = Action::kGptq;
    } else if (one_bit) {
      // One bit without calibration would spoil the model.
      choice.action = Action::kCopy;
    }
    return choice;
  }

 private:
  [[nodiscard]] Codec profile_choice(std::string_view name) const {
    const Codec profile = codec::profile_codec(options_.profile, name, traits_);
    return codec::is_vocabulary_edge(name) ? embedding_codec(options_, profile) : profile;
  }
  [[nodiscard]] gptq::Q2tpRule rule_of(std::string_view name) const {
    for (const RuleOverride& entry : options_.rule_overrides) {
      if (codec::glob_match(entry.pattern, name)) return entry.rule;
    }
    return options_.rule;
  }
  [[nodiscard]] gptq::OneBitOptions one_bit_of(std::string_view name) const {
    gptq::OneBitOptions one_bit = options_.one_bit;
    if (name.find("down_proj") != std::string_view::npos)
      one_bit.keep = std::min(one_bit.keep * options_.down_keep, kMostKept);
    return one_bit;
  }
  /// Sets the reason where it is none.
  [[nodiscard]] bool is_candidate(const cmf::TensorInfo& tensor, TensorChoice& choice) const {
    if (!options_.gptq) return false;
    if (choice.missed) return false;
    if (!gptq_target(choice.codec)) {
      choice.reason = "codec is rounded only";
    } else if (contains_any(tensor.name, options_.skip)) {
      choice.reason = "in the skip list";
    } else if (!options_.include.empty() && !matches_any(tensor.name, options_.include)) {
      choice.reason = "not in --include";
    } else if (is_one_bit(choice.codec) && options_.max_cols > 0 &&
               tensor.shape[1] > options_.max_cols) {
      choice.reason = "wider than --max-cols";
    }
    return choice.reason.empty();
  }

  const SelectionOptions& options_;
  codec::ModelTraits traits_;
};

/// A tied model has no lm_head.weight of its own.
std::string_view tie_remark(const cmf::Source& source, std::string_view pattern) {
  const bool tied = source.header().arch().value("tie_word_embeddings", cmf::Json(false)) == true;
  if (!tied || !codec::glob_match(pattern, "lm_head.weight")) return {};
  return "; its head is tied to the embedding, so name model.embed_tokens.weight";
}

void require_match(const cmf::Source& source, std::string_view option, std::string_view pattern,
                   bool glob) {
  const auto hit = [&](const cmf::TensorInfo& tensor) {
    return glob ? codec::glob_match(pattern, tensor.name)
                : tensor.name.find(pattern) != std::string::npos;
  };
  if (std::any_of(source.tensors().begin(), source.tensors().end(), hit)) return;
  fail(ErrorKind::kUsage,
       "{} {}: no tensor of {} matches; `cortiq-quant inspect --tensors` lists the names{}", option,
       pattern, source.path().string(), tie_remark(source, pattern));
}

void check_patterns(const cmf::Source& source, const SelectionOptions& options) {
  for (const auto& entry : options.overrides)
    require_match(source, "--tensor-quant", entry.pattern, true);
  for (const auto& entry : options.rule_overrides)
    require_match(source, "--q2tp-rule-tensor", entry.pattern, true);
  for (const auto& pattern : options.include) require_match(source, "--include", pattern, true);
  if (!options.skip_given) return;
  const std::vector<std::string> defaults = SelectionOptions{}.skip;
  for (const auto& part : options.skip) {
    // The names of the default list may be repeated for any model.
    const bool known = std::find(defaults.begin(), defaults.end(), part) != defaults.end();
    if (!part.empty() && !known) require_match(source, "--skip", part, false);
  }
}

/// Every entry must decide about at least one tensor for which `counts` holds.
template <typename Entry, typename Counts>
void require_effect(const cmf::Source& source, std::string_view option,
                    const std::vector<Entry>& entries, std::string_view why, Counts counts) {
  std::vector<bool> acts(entries.size(), false);
  for (std::size_t i = 0; i < source.tensors().size(); ++i) {
    const std::string& name = source.tensors()[i].name;
    const auto first = std::find_if(entries.begin(), entries.end(), [&](const Entry& entry) {
      return codec::glob_match(entry.pattern, name);
    });
    if (first != entries.end() && counts(i))
      acts[static_cast<std::size_t>(first - entries.begin())] = true;
  }
  const auto idle = std::find(acts.begin(), acts.end(), false);
  if (idle == acts.end()) return;
  fail(ErrorKind::kUsage,
       "{} {}: has no effect: {}, or an earlier {} takes them all; leave it out or change it",
       option, entries[static_cast<std::size_t>(idle - acts.begin())].pattern, why, option);
}

void check_effects(const cmf::Source& source, const SelectionOptions& options,
                   const std::vector<TensorChoice>& choices) {
  require_effect(source, "--tensor-quant", options.overrides,
                 "the tensors it matches are copied as they are (no float matrices, or kept in "
                 "float by name)",
                 [&](std::size_t i) { return choices[i].action != Action::kCopy; });
  require_effect(source, "--q2tp-rule-tensor", options.rule_overrides,
                 "none of the tensors it matches gets q2tp", [&](std::size_t i) {
                   return choices[i].action != Action::kCopy && choices[i].codec == Codec::kQ2tp;
                 });
}

}  // namespace

std::optional<gptq::Target> gptq_target(Codec codec) noexcept {
  switch (codec) {
    case Codec::kQ4tp:
      return gptq::Target::kQ4tp;
    case Codec::kQ2tp:
      return gptq::Target::kQ2tp;
    case Codec::kQ1s:
      return gptq::Target::kQ1s;
    case Codec::kQ1t:
      return gptq::Target::kQ1t;
    default:
      return std::nullopt;
  }
}

gptq::Q2tpRule parse_rule(std::string_view text) {
  if (text == "placed" || text == "full") return gptq::Q2tpRule::kPlaced;
  if (text == "cortiq" || text == "absmax") return gptq::Q2tpRule::kCortiq;
  fail(ErrorKind::kUsage, "q2tp rule '{}': expected placed (or full) or cortiq (or absmax)", text);
}

RuleOverride parse_rule_override(std::string_view text) {
  const auto split = text.rfind('=');
  if (split == std::string_view::npos || split == 0) {
    fail(ErrorKind::kUsage, "--q2tp-rule-tensor {}: expected PATTERN=RULE", text);
  }
  return {std::string(text.substr(0, split)), parse_rule(text.substr(split + 1))};
}

std::vector<TensorChoice> select_tensors(const cmf::Source& source,
                                         const SelectionOptions& options) {
  check_patterns(source, options);
  const Selector selector(source, options);
  std::vector<TensorChoice> choices;
  choices.reserve(source.tensors().size());
  for (const cmf::TensorInfo& tensor : source.tensors()) choices.push_back(selector.choose(tensor));
  check_effects(source, options, choices);
  return choices;
}

}  // namespace cortiq::pipeline
