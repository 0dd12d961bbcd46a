#include "rope.hpp"

#include <cmath>
#include <numbers>

namespace cortiq::hf {
namespace {

using cmf::Json;

/// The objects that may carry settings.
struct Sources {
  std::vector<Fields> global;     ///< by precedence: rope_scaling, rope_parameters (its full_attention part where nested)
  std::optional<Fields> local;    ///< rope_parameters.sliding_attention
  std::optional<Fields> dropped;  ///< a flat rope_parameters beside a rope_scaling, which replaces it as a whole
};

Sources find_sources(const Fields& text) {
  Sources sources;
  const Json* scaling = text.object("rope_scaling");
  if (scaling != nullptr && !scaling->empty())
    sources.global.emplace_back(*scaling, text.where() + ": rope_scaling");
  const Json* parameters = text.object("rope_parameters");
  if (parameters == nullptr) return sources;
  const Fields outer(*parameters, text.where() + ": rope_parameters");
  const bool nested =
      outer.find("full_attention") != nullptr || outer.find("sliding_attention") != nullptr;
  if (!nested) {
    if (sources.global.empty()) {
      sources.global.push_back(outer);
    } else {
      sources.dropped = outer;
    }
    return sources;
  }
  if (const Json* full = outer.object("full_attention")) {
    sources.global.emplace_back(*full, outer.where() + ".full_attention");
  }
  if (const Json* sliding = outer.object("sliding_attention")) {
    sources.local.emplace(*sliding, outer.where() + ".sliding_attention");
  }
  return sources;
}

/// A number that several places may state, and one of them decides.
class Choice {
 public:
  Choice(std::string_view key, std::optional<double> fallback) : key_(key), value_(fallback) {}
  /// By falling precedence.
  void add(const Fields& fields, std::string_view key) {
    const auto stated = fields.number({key});
    if (!stated) return;
    if (!place_.empty()) return note(fields, key, *stated);
    value_ = stated;
    place_ = fmt::format("{}: {}", fields.where(), key);
  }
  /// What the file states and nobody uses.
  void note(const Fields& fields, std::string_view key, double stated) {
    if (stated != value_) others_.push_back(fmt::format("{}: {} says {:g}", fields.where(), key, stated));
  }
  [[nodiscard]] std::optional<double> value(std::vector<std::string>& warnings) const {
    if (!others_.empty()) {
      warnings.push_back(fmt::format("{} of {} is used, as transformers does, although {}; remove what does not hold",
                                     value_ ? fmt::format("{} {:g}", key_, *value_) : std::string(key_),
                                     place_.empty() ? "the model family" : place_, fmt::join(others_, ", ")));
    }
    return value_;
  }

 private:
  std::string_view key_;
  std::optional<double> value_;
  std::string place_;
  std::vector<std::string> others_;
};

/// "default" where the object names no variant. Multi-axis tables equal the plain one for text.
std::string variant_of(const Fields& fields) {
  const std::string variant = fields.text({"rope_type", "type"}).value_or("default");
  return variant == "mrope" ? "default" : variant;
}

double require_number(const Fields& fields, std::string_view key) {
  const auto value = fields.number({key});
  if (!value || *value <= 0) fields.wrong(key, "a positive number");
  return *value;
}

double inverse_frequency(double theta, std::int64_t i, std::int64_t rotary_dims) {
  return std::pow(theta, -2.0 * static_cast<double>(i) / static_cast<double>(rotary_dims));
}

std::vector<double> llama3_factors(const Fields& fields, double theta, std::int64_t rotary_dims) {
  const double factor = require_number(fields, "factor");
  const double low = require_number(fields, "low_freq_factor");
  const double high = require_number(fields, "high_freq_factor");
  const double length = require_number(fields, "original_max_position_embeddings");
  if (high <= low) fields.wrong("high_freq_factor", "a number above low_freq_factor");
  std::vector<double> factors;
  for (std::int64_t i = 0; i < rotary_dims / 2; ++i) {
    const double base = inverse_frequency(theta, i, rotary_dims);
    const double wavelength = 2 * std::numbers::pi / base;
    double scaled = base;
    if (wavelength > length / low) {
      scaled = base / factor;
    } else if (wavelength >= length / high) {
      const double smooth = (length / wavelength - low) / (high - low);
      scaled = (1 - smooth) * base / factor + smooth * base;
    }
    factors.push_back(base / scaled);
  }
  return factors;
}

double yarn_scale(double factor, double weight) {
  return factor <= 1 ? 1.0 : 0.1 * weight * std::log(factor) + 1.0;
}

Json yarn_record(const Fields& fields, const Fields& text) {
  const double factor = require_number(fields, "factor");
  auto length = fields.integer({"original_max_position_embeddings"});
  if (!length)
    length = text.integer({"original_max_position_embeddings", "max_position_embeddings"});
  if (!length || *length == 0)
    fields.wrong("original_max_position_embeddings", "a positive integer");
  if (!fields.boolean({"truncate"}).value_or(true))
    fields.wrong("truncate", "true (untruncated yarn is not handled)");
  const auto scale = fields.number({"mscale"});
  const auto scale_all = fields.number({"mscale_all_dim"});
  double attention = yarn_scale(factor, 1);
  if (scale && scale_all && *scale != 0 && *scale_all != 0) {
    attention = yarn_scale(factor, *scale) / yarn_scale(factor, *scale_all);
  }
  Json yarn = Json::object();
  yarn["factor"] = factor;
  yarn["original_max_position_embeddings"] = *length;
  yarn["beta_fast"] = fields.number({"beta_fast"}).value_or(32.0);
  yarn["beta_slow"] = fields.number({"beta_slow"}).value_or(1.0);
  yarn["attention_factor"] = fields.number({"attention_factor"}).value_or(attention);
  if (scale_all) yarn["mscale_all_dim"] = *scale_all;
  return yarn;
}

void apply_variant(Rope& rope, const Fields& fields, const Fields& text, std::int64_t head_dim) {
  const std::string variant = variant_of(fields);
  const auto share = static_cast<std::int64_t>(static_cast<double>(head_dim) * rope.rotary_share);
  const std::int64_t rotary_dims = share < 2 ? 2 : share;
  if (variant == "default") return;
  if (variant == "dynamic") {
    // Up to max_position_embeddings the plain table holds, and no window is longer.
    const double alpha = fields.number({"alpha"}).value_or(1.0);
    if (alpha <= 0 || head_dim <= 2) fields.wrong("alpha", "a positive number");
    if (alpha != 1)
      rope.theta *=
          std::pow(alpha, static_cast<double>(head_dim) / static_cast<double>(head_dim - 2));
    return;
  }
  if (variant == "linear") {
    rope.factors.assign(static_cast<std::size_t>(rotary_dims / 2),
                        require_number(fields, "factor"));
  } else if (variant == "llama3") {
    rope.factors = llama3_factors(fields, rope.theta, rotary_dims);
  } else if (variant == "yarn") {
    rope.yarn = yarn_record(fields, text);
  } else {
    fail(ErrorKind::kUnsupported,
         "{}: position scaling \"{}\" is not handled; supported are default, linear, dynamic, "
         "llama3 and yarn",
         fields.where(), variant);
  }
}

/// The object whose variant holds: the first that names one. The others are compared with it.
std::optional<Fields> deciding_variant(const Sources& sources, std::vector<std::string>& warnings) {
  std::vector<Fields> named;
  for (const Fields& fields : sources.global)
    if (fields.text({"rope_type", "type"})) named.push_back(fields);
  if (named.empty() && sources.global.empty()) return std::nullopt;
  const Fields decides = named.empty() ? sources.global.front() : named.front();
  if (sources.dropped && sources.dropped->text({"rope_type", "type"})) named.push_back(*sources.dropped);
  const auto described = [](const Fields& fields) {
    const auto factor = fields.number({"factor"});
    return factor ? fmt::format("{} (factor {:g})", variant_of(fields), *factor) : variant_of(fields);
  };
  for (const Fields& other : named) {
    if (described(other) == described(decides)) continue;
    warnings.push_back(fmt::format("position scaling {} of {} is used, as transformers does, although {} says {}; remove what does not hold",
                                   described(decides), decides.where(), other.where(), described(other)));
  }
  return decides;
}

}  // namespace

Rope read_rope(const Fields& text, std::int64_t head_dim, double default_theta,
               std::optional<double> default_local_theta) {
  const Sources sources = find_sources(text);
  Rope rope;
  const auto choose = [&](std::string_view key, double fallback) {
    Choice choice(key, fallback);
    for (const Fields& fields : sources.global) choice.add(fields, key);
    choice.add(text, key);
    if (sources.dropped)
      if (const auto stated = sources.dropped->number({key})) choice.note(*sources.dropped, key, *stated);
    return *choice.value(rope.warnings);
  };
  rope.theta = choose("rope_theta", default_theta);
  rope.rotary_share = choose("partial_rotary_factor", 1.0);
  if (rope.theta <= 0) text.wrong("rope_theta", "a positive number");
  if (rope.rotary_share <= 0 || rope.rotary_share > 1)
    text.wrong("partial_rotary_factor", "a number in (0, 1]");
  Choice local("rope_local_base_freq", default_local_theta);
  if (sources.local) {
    if (variant_of(*sources.local) != "default") {
      fail(ErrorKind::kUnsupported,
           "{}: position scaling \"{}\" of sliding layers is not handled; only default is",
           sources.local->where(), variant_of(*sources.local));
    }
    local.add(*sources.local, "rope_theta");
    rope.local_rotary_share = sources.local->number({"partial_rotary_factor"});
  }
  local.add(text, "rope_local_base_freq");
  rope.local_theta = local.value(rope.warnings);
  if (rope.local_theta && *rope.local_theta <= 0)
    text.wrong("rope_local_base_freq", "a positive number");
  if (const auto decides = deciding_variant(sources, rope.warnings)) apply_variant(rope, *decides, text, head_dim);
  return rope;
}

}  // namespace cortiq::hf
