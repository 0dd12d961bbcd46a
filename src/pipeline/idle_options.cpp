#include "idle_options.hpp"

#include <algorithm>
#include <initializer_list>
#include <string_view>

#include "cortiq/codec/codec.hpp"
#include "cortiq/codec/policy.hpp"

namespace cortiq::pipeline {
namespace {

using codec::Codec;

/// Why a group of options may change nothing, if that is so.
struct Rule {
  std::initializer_list<std::string_view> options;
  bool idle;
  std::string_view why;
};

class Tensors {
 public:
  Tensors(const Plan& plan, const cmf::Source& source) : plan_(plan), source_(source) {}
  /// Whether a tensor is written with one of these codecs, by GPTQ or (unless `swept`) rounding.
  [[nodiscard]] bool any(std::initializer_list<Codec> codecs, bool swept,
                         std::string_view part_of_name = {}) const {
    for (std::size_t i = 0; i < plan_.choices.size(); ++i) {
      const TensorChoice& choice = plan_.choices[i];
      if (choice.action == Action::kCopy || (swept && choice.action != Action::kGptq)) continue;
      if (source_.tensors()[i].name.find(part_of_name) == std::string::npos) continue;
      if (std::find(codecs.begin(), codecs.end(), choice.codec) != codecs.end()) return true;
    }
    return false;
  }
  [[nodiscard]] bool experts() const {
    return std::any_of(plan_.groups.begin(), plan_.groups.end(),
                       [](const GroupPlan& group) { return group.place.has_value(); });
  }
  [[nodiscard]] bool vocabulary_edges() const {
    return std::any_of(source_.tensors().begin(), source_.tensors().end(),
                       [](const cmf::TensorInfo& info) {
                         return codec::is_vocabulary_edge(info.name);
                       });
  }

 private:
  const Plan& plan_;
  const cmf::Source& source_;
};

bool in_list(std::string_view name, const std::vector<std::string>& parts) {
  return std::any_of(parts.begin(), parts.end(), [&](const std::string& part) {
    return !part.empty() && name.find(part) != std::string_view::npos;
  });
}

/// A --skip that leaves out a name of the default list makes its tensors candidates, if their codec is one of GPTQ
/// and they have an input. The head's codec is that of --embeddings. Empty: what was released gets GPTQ, or nothing was.
std::string released_in_vain(const SelectionOptions& selection, const Plan& plan, const cmf::Source& source) {
  const std::vector<std::string> defaults = SelectionOptions{}.skip;
  std::string rounded;
  bool released = false, head = false;
  for (std::size_t i = 0; i < plan.choices.size(); ++i) {
    const std::string& name = source.tensors()[i].name;
    const TensorChoice& choice = plan.choices[i];
    if (!in_list(name, defaults) || in_list(name, selection.skip) || choice.action == Action::kCopy) continue;
    if (choice.action == Action::kGptq) return {};
    released = true;
    if (name.find("lm_head") == std::string::npos) continue;
    head = true;
    rounded = fmt::format("{} gets {}, which only rounds", name, codec::codec_name(choice.codec));
  }
  if (!released) return {};
  if (head)
    return fmt::format("--skip: leaves the head to GPTQ in vain: {}; add --embeddings profile", rounded);
  return "--skip: leaves the embedding to GPTQ in vain: it is looked up, has no input Hessian and is rounded";
}

}  // namespace

std::vector<std::string> idle_options(const GptqOptions& options, const Plan& plan,
                                      const cmf::Source& source, const RunFacts& facts) {
  const Tensors tensors(plan, source);
  const Rule rules[] = {
      {{"--min-rows", "--moe-prior"}, !tensors.experts(),
       "no matrix that is quantized here belongs to a routed expert"},
      {{"--q2tp-rule", "--q2tp-rule-tensor"}, !tensors.any({Codec::kQ2tp}, false),
       "no tensor of this model gets q2tp"},
      {{"--q2tp-debias"}, !tensors.any({Codec::kQ2tp}, true),
       "no matrix of this model gets q2tp by GPTQ"},
      {{"--q4tp-debias"}, !tensors.any({Codec::kQ4tp}, true),
       "no matrix of this model gets q4tp by GPTQ"},
      {{"--ladder", "--group-moves", "--row-scale"}, !tensors.any({Codec::kQ4tp, Codec::kQ2tp}, true),
       "no matrix of this model gets q4tp or q2tp by GPTQ"},
      {{"--keep", "--col-mask"}, !tensors.any({Codec::kQ1s, Codec::kQ1t}, false),
       "no tensor of this model gets q1s or q1t"},
      {{"--down-keep"}, !tensors.any({Codec::kQ1s, Codec::kQ1t}, false, "down_proj"),
       "no down_proj of this model gets q1s or q1t"},
      {{"--no-row-rescale"}, !tensors.any({Codec::kQ1t}, true),
       "no matrix of this model gets q1t by GPTQ"},
      {{"--embeddings"}, !tensors.vocabulary_edges(), "this model has no embedding and no head"},
      {{"--vram-gb"}, !facts.uses_device, "the host folds and sweeps"},
      {{"--report", "--ppl"}, options.dry_run, "nothing is run or written with --dry-run"},
      {{"--calib", "--tokens", "--window", "--bos", "--calib-model", "--verify-tdata"},
       facts.unknown_cache,
       "the Hessians come from a cache that does not say what it was made from"}};
  std::vector<std::string> warnings;
  for (const std::string& given : options.given) {
    if (given == "--skip") {
      if (auto warning = released_in_vain(options.selection, plan, source); !warning.empty())
        warnings.push_back(std::move(warning));
    }
    for (const Rule& rule : rules) {
      if (!rule.idle || std::find(rule.options.begin(), rule.options.end(), given) ==
                            rule.options.end())
        continue;
      warnings.push_back(fmt::format("{}: has no effect: {}", given, rule.why));
    }
  }
  return warnings;
}

}  // namespace cortiq::pipeline
